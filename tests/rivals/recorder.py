"""The outside world: a server that records every POST to /RUN/STEP and answers it after 30 ms."""

import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER_SECONDS = 0.030


class Recorder:
    def __init__(self):
        self.changed = threading.Condition(threading.RLock())
        self.received = Counter()  # number of POSTs by (run, step)
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                _, run, step = self.path.split("/")
                recorder.record(run, int(step))
                time.sleep(ANSWER_SECONDS)
                try:
                    self.answer(b'{"step": %d}' % int(step))
                except ConnectionError:
                    pass  # the sender was killed

            def answer(self, body):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = "127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def record(self, run, step):
        with self.changed:
            self.received[run, step] += 1
            self.changed.notify_all()

    def count(self, run):
        """The number of POSTs of a run so far."""
        with self.changed:
            return sum(count for (other, _), count in self.received.items() if other == run)

    def wait_for_more(self, run, known, timeout):
        """Waits until the run has sent more than `known` POSTs; returns whether it has."""
        with self.changed:
            return self.changed.wait_for(lambda: self.count(run) > known, timeout)

    def has_received(self, run, step):
        with self.changed:
            return self.received[run, step] > 0
