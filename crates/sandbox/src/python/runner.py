# Runs one block: reads it from the channel, provides what it may use, and sends back what it returned. The operating
# system confines the block; what is missing here only improves error messages.
import builtins, json, os, posixpath, select, sys, types

MARK = b""
MAX_DEPTH = 100
PRELOADED = ("math", "statistics", "collections", "itertools", "functools", "re", "datetime", "json", "os", "random",
             "httpx")
ALLOWED = frozenset(PRELOADED) | frozenset((
    "__future__", "abc", "array", "asyncio", "base64", "binascii", "bisect", "calendar", "cmath", "colorsys",
    "contextlib", "copy", "csv", "dataclasses", "decimal", "difflib", "enum", "fractions", "hashlib", "heapq", "hmac", "html", "inspect",
    "io", "ipaddress", "keyword", "logging", "numbers", "operator", "pprint", "queue", "secrets", "string", "struct",
    "textwrap", "time", "traceback", "types", "typing", "unicodedata", "urllib", "uuid", "warnings", "weakref", "zlib",
    "zoneinfo"))

# Libraries that load slowly, and the words of a block that needs them. Python has a slower version of each.
SLOW_LIBRARIES = {"_decimal": ("decimal", "fractions", "statistics"), "_hashlib": ("hash", "hmac", "secrets", "uuid"),
                  "_zoneinfo": ("zoneinfo",)}


class Channel:
    """Frames to and from the run."""

    def __init__(self):
        self.count, self.limit = 0, 1 << 23
        self.poll = select.poll()
        self.poll.register(3, select.POLLIN)

    def write(self, message):
        data = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8")
        if len(data) > self.limit:
            raise ValueError(f"a message to the run is larger than {self.limit >> 20} MiB")
        data = memoryview(MARK + len(data).to_bytes(4, "big") + data)
        while data:
            data = data[os.write(4, data):]

    def read(self):
        head = exactly(20)
        return json.loads(exactly(int.from_bytes(head[16:], "big")))

    def send(self, request):
        self.count += 1
        self.write({"id": self.count, **request})
        return self.count

    def receive(self, patience):
        if self.poll.poll(None if patience is None else int(patience * 1000) + 1):
            return self.read()
        return None


class Context(dict):
    """The context argument of a block: keys that are attributes, too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the context has no {name!r}, only {', '.join(self)}") from None


class NoDatabase:
    """Placeholder for the database client of the original system."""

    def __getattr__(self, name):
        raise RuntimeError('there is no supabase here: read and write context["memory"], which is kept for the user')

    __call__ = __getitem__ = lambda self, *_, **__: self.client

    def __bool__(self):
        return False


class Answer(str):
    """Text of a model, already available, that may still be awaited."""

    def __await__(self):
        return self
        yield


class Call:
    """A model call that is sent when it is awaited."""

    def __init__(self, messages):
        self.messages = messages

    def __await__(self):
        return text_of((yield from aio.ask({"llm": self.messages}).__await__()))


def text_of(answer):
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["llm"]


def call_llm_messages(messages):
    plain = [{"role": str(message["role"]), "content": as_text(message["content"])} for message in messages]
    if aio.active:
        return Call(plain)
    return Answer(text_of(aio.ask_now({"llm": plain})))


def as_text(content):
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def call_llm(system="", user=""):
    messages = [{"role": "system", "content": system}] if system else []
    return call_llm_messages(messages + [{"role": "user", "content": user}])


def parse_json_output(text, schema=None):
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        try:
            return decoder.raw_decode(text, at)[0]
        except ValueError:
            at = text.find("{", at + 1)
    return {"raw": text}


def environment(variables):
    shim = types.ModuleType("os", "The environment that the configuration names, and paths; nothing else.")
    shim.environ, shim.path, shim.sep, shim.linesep, shim.name = dict(variables), posixpath, "/", "\n", "posix"
    shim.getenv = lambda key, default=None: shim.environ.get(key, default)
    shim.urandom = os.urandom

    def missing(name):
        raise AttributeError(f"os.{name} is not here, only os.environ, os.getenv and os.path")

    shim.__getattr__ = missing
    return shim


def restricted_import(shims):
    real = builtins.__import__

    def importer(name, globals=None, locals=None, fromlist=(), level=0):
        top = name.partition(".")[0]
        if level or top not in ALLOWED:
            raise ImportError(f"Module '{top or '.'}' is not allowed. Available: {', '.join(sorted(ALLOWED))}")
        if name == "os.path":
            return posixpath if fromlist else shims["os"]
        if name in shims:
            return shims[name]
        if top == "urllib" and name not in ("urllib", "urllib.parse"):
            raise ImportError(f"Module '{name}' is not allowed, only urllib.parse; use httpx for requests")
        return real(name, None, None, fromlist, 0)

    return importer


def namespace(source, variables):
    # As in the original system, but with the whole language: there are no files or terminals anyway.
    allowed = {name: value for name, value in vars(builtins).items() if name not in ("open", "input", "breakpoint")}
    shims = {"os": environment(variables), "httpx": web, "asyncio": aio}
    allowed["__import__"] = restricted_import(shims)
    module = types.ModuleType("block")
    sys.modules["block"] = module
    names = vars(module)
    names.update(__builtins__=allowed, call_llm=call_llm, call_llm_messages=call_llm_messages,
                 parse_json_output=parse_json_output)
    for name in PRELOADED:
        if name in source:
            names[name] = allowed["__import__"](name)
    return names


def line_of(error):
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == "block" else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "block":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def describe(error):
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except BaseException:
        text = ""
    line = line_of(error)
    text = text.encode("utf-8", "replace").decode("utf-8")[:2000]
    return type(error).__name__ + (f": {text}" if text else "") + (f" (line {line} of the block)" if line else "")


class Refused(Exception):
    """The block's result is not acceptable."""


def written(value, what):
    """The exact JSON of a value, or an error with the location of the problem."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8").decode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(wrong(value, what, 0) or f"{what} is not JSON: {error}") from None


def wrong(value, place, depth):
    if depth > MAX_DEPTH:
        return f"{place[:200]} is nested deeper than {MAX_DEPTH} levels, or holds itself"
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, (str, int, float, bool, type(None))):
                return f"{place} has a key that is not text: a {type(key).__name__}"
            problem = wrong(key, f"a key of {place}", depth + 1) or wrong(entry, f"{place}[{key!r}]", depth + 1)
            if problem:
                return problem
    elif isinstance(value, (list, tuple)):
        for i, entry in enumerate(value):
            problem = wrong(entry, f"{place}[{i}]", depth + 1)
            if problem:
                return problem
    elif isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"{place} is {value}, which JSON cannot say"
    elif isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return f"{place} is text with half a character (a lone surrogate)"
    elif isinstance(value, int) and not isinstance(value, bool):
        try:
            str(value)
        except ValueError:
            return f"{place} is a number with too many digits"
    elif not isinstance(value, (float, bool, type(None))):
        return f"{place} is a {type(value).__name__}, which is not JSON"
    return None


def changes(before, memory):
    """Keys that were set or removed, in order, with their values now."""
    if type(memory) is not dict:
        raise Refused(f'context["memory"] is a {type(memory).__name__}, it must stay a dict')
    changed = []
    for key in memory:
        if not isinstance(key, str):
            raise Refused(f'context["memory"] has a key that is not text: a {type(key).__name__}')
        text = written(memory[key], f'context["memory"][{key!r}]')
        if before.get(key) != text:
            changed.append([key, [memory[key]]])
    changed += [[key, []] for key in before if key not in memory]
    return sorted(changed, key=lambda change: change[0])


def execute(job):
    names = namespace(job["source"], job["environment"])
    before = {key: json.dumps(value, ensure_ascii=False) for key, value in job["memory"].items()}
    context = Context(user=job["user"], memory=job["memory"], user_id=job["user_id"], supabase=NoDatabase())
    exec(compile(job["source"], "block", "exec", dont_inherit=True), names)
    function = names.get("execute")
    if not callable(function):
        raise Refused("the source_code of the block is missing the function execute(inputs, context)")
    result = function(job["inputs"], context)
    if hasattr(result, "__await__"):
        result = aio.drive(aio.ensure_coroutine(result))
    written(result, "the result")
    return {"output": result, "memory": changes(before, context.get("memory"))}


def run(job):
    try:
        return {"done": execute(job)}
    except Refused as refused:
        return {"failed": str(refused), "kind": "result"}
    except MemoryError:
        return {"failed": "", "kind": "memory"}
    except BaseException as error:
        return {"failed": describe(error), "kind": "raised"}


def module(name, source):
    made = types.ModuleType(name)
    exec(codes[source], vars(made))
    return made


def load_libraries(source=None):
    """Loads shared libraries while that is possible: all, or those that a source may need."""
    for name in codes["libraries"]:
        words = SLOW_LIBRARIES.get(name)
        if source is None or words is None or any(word in source for word in words):
            try:
                __import__(name)
            except ImportError:
                pass


def main():
    global MARK, aio, web, channel
    os.environ.clear()
    hello = channel.read()
    MARK = bytes(hello["mark"])
    channel.limit = hello["output_bytes"]
    aio = sys.modules["flowloom_aio"] = module("asyncio", "aio")
    aio.channel = channel
    web = module("httpx", "web")
    # A block that is waiting already should not have to wait for modules that it may not use.
    job = channel.read() if channel.poll.poll(0) else None
    if job:
        load_libraries(job["source"])
    else:
        load_libraries()
        for name in PRELOADED + ("dataclasses", "typing", "enum", "decimal", "hashlib", "base64", "urllib.parse"):
            if name not in ("os", "httpx"):
                __import__(name)
    channel.write({"ready": True})
    job = job or channel.read()
    # Announces to the launcher that untrusted code comes next: from here on no memory can be made executable.
    os.sync()
    report = run(job)
    try:
        sys.stdout.flush()
    except BaseException:
        pass
    try:
        channel.write(report)
    except MemoryError:
        job = report = None
        channel.write({"failed": "", "kind": "memory"})
    except (TypeError, ValueError, RecursionError) as error:
        channel.write({"failed": f"the result: {error}", "kind": "result"})
    os._exit(0)


channel = Channel()
main()
