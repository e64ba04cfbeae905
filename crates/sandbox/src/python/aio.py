# A replacement of `asyncio` for blocks, without threads, sockets or the start-up time of the real module: coroutines
# that wait for answers of the run, for time, and for each other. The runner sets `channel`, which sends requests and
# reads answers.
import collections, heapq, time, types

channel = None
ready = collections.deque()
timers = []
asked = {}
running = None
active = False
counter = 0


class CancelledError(BaseException):
    pass


class InvalidStateError(Exception):
    pass


TimeoutError = TimeoutError
FIRST_COMPLETED, FIRST_EXCEPTION, ALL_COMPLETED = "FIRST_COMPLETED", "FIRST_EXCEPTION", "ALL_COMPLETED"


class Future:
    def __init__(self, *, loop=None):
        self._done, self._value, self._error, self._cancelled, self._then = False, None, None, False, []

    def done(self):
        return self._done

    def cancelled(self):
        return self._cancelled

    def _finish(self, value=None, error=None):
        if self._done:
            return
        self._done, self._value, self._error = True, value, error
        self._cancelled = isinstance(error, CancelledError)
        for then in self._then:
            then(self)
        self._then = []

    def set_result(self, value):
        if self._done:
            raise InvalidStateError("invalid state")
        self._finish(value)

    def set_exception(self, error):
        if self._done:
            raise InvalidStateError("invalid state")
        self._finish(error=error() if isinstance(error, type) else error)

    def result(self):
        if not self._done:
            raise InvalidStateError("Result is not ready.")
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self):
        if not self._done:
            raise InvalidStateError("Exception is not set.")
        if self._cancelled:
            raise self._error
        return self._error

    def add_done_callback(self, then, *, context=None):
        if self._done:
            then(self)
        else:
            self._then.append(then)

    def cancel(self, msg=None):
        if self._done:
            return False
        self._finish(error=CancelledError())
        return True

    def __await__(self):
        if not self._done:
            yield self
        return self.result()

    __iter__ = __await__


class Task(Future):
    def __init__(self, coroutine, name=None):
        super().__init__()
        global counter
        counter += 1
        self._coroutine, self._waits, self._name, self._stop = coroutine, None, name or f"Task-{counter}", False
        ready.append((self, None))

    def get_name(self):
        return self._name

    def cancel(self, msg=None):
        if self._done:
            return False
        self._stop = True
        waits, self._waits = self._waits, None
        if isinstance(waits, Task):
            waits.cancel()
        if waits is not None:
            ready.append((self, None))
        return True

    def _step(self):
        global running
        running, before = self, running
        try:
            if self._stop:
                self._stop = False
                waits = self._coroutine.throw(CancelledError())
            else:
                waits = self._coroutine.send(None)
        except StopIteration as stop:
            self._finish(stop.value)
        except (SystemExit, KeyboardInterrupt) as error:
            self._finish(error=error)
            raise
        except BaseException as error:
            self._finish(error=error)
        else:
            if waits is None:
                ready.append((self, None))
            elif isinstance(waits, Future):
                self._waits = waits
                waits.add_done_callback(lambda done: ready.append((self, done)))
            else:
                ready.append((self, None))
                self._coroutine = failing(self._coroutine, waits)
        finally:
            running = before


def failing(coroutine, what):
    coroutine.close()

    async def fail():
        raise RuntimeError(f"a {type(what).__name__} cannot be awaited here")

    return fail()


def ask(request):
    """Sends a request to the run and returns a future for its answer."""
    future = Future()
    asked[channel.send(request)] = future
    return future


def ask_now(request):
    """Sends a request to the run and blocks until it is answered."""
    future = ask(request)
    while not future.done():
        receive(None)
    return future.result()


def receive(patience):
    answer = channel.receive(patience)
    if answer is not None:
        asked.pop(answer["id"]).set_result(answer)


def drive(coroutine):
    """Runs the event loop until the coroutine is done; other tasks are abandoned."""
    global active
    if active:
        coroutine.close()
        raise RuntimeError("asyncio.run() cannot be called from a running event loop")
    active = True
    main = Task(coroutine)
    try:
        while not main.done():
            if ready:
                task, waited = ready.popleft()
                if not task.done() and (waited is None or waited is task._waits):
                    task._waits = None
                    task._step()
            elif timers or asked:
                turn()
            else:
                raise RuntimeError("the block waits for something that never happens")
        return main.result()
    finally:
        active = False


def turn():
    patience = max(0.0, timers[0][0] - time.monotonic()) if timers else None
    if asked:
        receive(patience)
    elif patience:
        time.sleep(patience)
    while timers and timers[0][0] <= time.monotonic():
        heapq.heappop(timers)[2]._finish(None)


def after(delay):
    global counter
    counter += 1
    future = Future()
    heapq.heappush(timers, (time.monotonic() + max(0, delay), counter, future))
    return future


def iscoroutine(thing):
    return isinstance(thing, (types.CoroutineType, types.GeneratorType))


def iscoroutinefunction(thing):
    code = getattr(getattr(thing, "__func__", thing), "__code__", None)
    return bool(code and code.co_flags & 0x80)


def ensure_future(thing, *, loop=None):
    if isinstance(thing, Future):
        return thing
    if isinstance(thing, types.CoroutineType):
        return Task(thing)
    if hasattr(thing, "__await__"):
        async def wait():
            return await thing
        return Task(wait())
    raise TypeError("An asyncio.Future, a coroutine or an awaitable is required")


def create_task(coroutine, *, name=None, context=None):
    if not isinstance(coroutine, types.CoroutineType):
        if hasattr(coroutine, "__await__"):
            return ensure_future(coroutine)
        raise TypeError(f"a coroutine was expected, got {coroutine!r}")
    return Task(coroutine, name)


async def sleep(delay, result=None):
    await after(delay)
    return result


def gather(*things, return_exceptions=False):
    async def all_of():
        tasks = [ensure_future(thing) for thing in things]
        results = []
        first = Future()
        for task in tasks:
            if not return_exceptions:
                task.add_done_callback(lambda done: done._error is not None and first._finish(done))
        rest = wait_all(tasks)
        await either(first, rest)
        if first.done():
            first._value.result()
        for task in tasks:
            results.append(task._error if return_exceptions and task._error is not None else task.result())
        return results

    return Task(all_of())


def wait_all(tasks):
    left = [len(tasks)]
    future = Future()

    def one(_):
        left[0] -= 1
        if not left[0]:
            future._finish(None)

    for task in tasks:
        task.add_done_callback(one)
    if not tasks:
        future._finish(None)
    return future


def either(*futures):
    future = Future()
    for one in futures:
        one.add_done_callback(lambda done: future._finish(None))
    return future


async def wait(things, *, timeout=None, return_when=ALL_COMPLETED):
    tasks = [ensure_future(thing) for thing in things]
    stops = [wait_all(tasks)] + ([after(timeout)] if timeout is not None else [])
    if return_when == FIRST_COMPLETED:
        stops.append(either(*tasks))
    elif return_when == FIRST_EXCEPTION:
        failed = Future()
        for task in tasks:
            task.add_done_callback(lambda done: done._error is not None and failed._finish(None))
        stops.append(failed)
    await either(*stops)
    return {task for task in tasks if task.done()}, {task for task in tasks if not task.done()}


async def wait_for(thing, timeout):
    task = ensure_future(thing)
    if timeout is not None:
        await either(task, after(timeout))
        if not task.done():
            task.cancel()
            raise TimeoutError()
    return await task


def as_completed(things, *, timeout=None):
    tasks = [ensure_future(thing) for thing in things]
    done = collections.deque()
    waiting = collections.deque()

    def one(task):
        done.append(task)
        if waiting:
            waiting.popleft()._finish(None)

    for task in tasks:
        task.add_done_callback(one)

    async def following():
        if not done:
            future = Future()
            waiting.append(future)
            await future
        return done.popleft().result()

    for _ in tasks:
        yield following()


def shield(thing):
    return ensure_future(thing)


async def to_thread(function, /, *args, **kwargs):
    return function(*args, **kwargs)


def run(coroutine, *, debug=None):
    return drive(coroutine)


def current_task(loop=None):
    return running


def all_tasks(loop=None):
    return {task for task, _ in ready} | ({running} if running else set())


class timeout:
    def __init__(self, delay):
        self._delay, self._task, self._late = delay, None, False

    async def __aenter__(self):
        self._task = running
        if self._delay is not None:
            after(self._delay).add_done_callback(self._fire)
        return self

    def _fire(self, _):
        if self._task is not None:
            self._late = True
            self._task.cancel()

    async def __aexit__(self, kind, error, trace):
        self._task = None
        if self._late and kind is CancelledError:
            raise TimeoutError() from error


class TaskGroup:
    async def __aenter__(self):
        self._tasks = []
        return self

    def create_task(self, coroutine, *, name=None, context=None):
        self._tasks.append(create_task(coroutine, name=name))
        return self._tasks[-1]

    async def __aexit__(self, kind, error, trace):
        if kind is not None:
            for task in self._tasks:
                task.cancel()
            return
        await gather(*self._tasks)


class Event:
    def __init__(self):
        self._set, self._waiting = False, []

    def is_set(self):
        return self._set

    def set(self):
        self._set = True
        for future in self._waiting:
            future._finish(None)
        self._waiting = []

    def clear(self):
        self._set = False

    async def wait(self):
        if not self._set:
            self._waiting.append(Future())
            await self._waiting[-1]
        return True


class Semaphore:
    def __init__(self, value=1):
        self._free, self._waiting = value, collections.deque()

    def locked(self):
        return self._free == 0

    async def acquire(self):
        if self._free == 0:
            future = Future()
            self._waiting.append(future)
            await future
        else:
            self._free -= 1
        return True

    def release(self):
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future._finish(None)
                return
        self._free += 1

    async def __aenter__(self):
        await self.acquire()

    async def __aexit__(self, *_):
        self.release()


class BoundedSemaphore(Semaphore):
    pass


class Lock(Semaphore):
    def __init__(self):
        super().__init__(1)


class QueueEmpty(Exception):
    pass


class Queue:
    def __init__(self, maxsize=0):
        self._items, self._waiting, self._open, self._all = collections.deque(), collections.deque(), 0, Event()
        self._all.set()

    def qsize(self):
        return len(self._items)

    def empty(self):
        return not self._items

    def put_nowait(self, item):
        self._items.append(item)
        self._open += 1
        self._all.clear()
        if self._waiting:
            self._waiting.popleft()._finish(None)

    async def put(self, item):
        self.put_nowait(item)

    def get_nowait(self):
        if not self._items:
            raise QueueEmpty()
        return self._items.popleft()

    async def get(self):
        while not self._items:
            self._waiting.append(Future())
            await self._waiting[-1]
        return self._items.popleft()

    def task_done(self):
        self._open -= 1
        if self._open == 0:
            self._all.set()

    async def join(self):
        await self._all.wait()


class Loop:
    def time(self):
        return time.monotonic()

    def create_task(self, coroutine, *, name=None):
        return create_task(coroutine, name=name)

    def create_future(self):
        return Future()

    def run_until_complete(self, thing):
        return drive(ensure_coroutine(thing))

    async def run_in_executor(self, executor, function, *args):
        return function(*args)

    def is_running(self):
        return active

    def close(self):
        if active:
            raise RuntimeError("Cannot close a running event loop")


async def ensure_coroutine(thing):
    return await thing


the_loop = Loop()


def get_running_loop():
    if not active:
        raise RuntimeError("no running event loop")
    return the_loop


def get_event_loop():
    return the_loop


new_event_loop = get_event_loop


def set_event_loop(loop):
    pass
