"""A web server on loopback that serves files badly: it cuts connections, sends too little, and says 429 and 503."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Server(ThreadingHTTPServer):
    """Serves ``folder``. ``fault(number, path)`` names what goes wrong with a GET, or None.

    Faults: a status as text (``503``, ``429``, ``404``), ``cut`` (the connection ends in mid-body), ``short`` (less
    than announced), ``ignore`` (no range is heeded).
    """

    daemon_threads = True

    def __init__(self, folder: Path, fault: Callable[[int, str], str | None]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.fault = fault
        self.lock = threading.Lock()
        self.gets = 0
        self.sent = 0
        self.faults: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        path = self.server.folder / self.path.lstrip("/").split("?")[0]
        if not path.is_file():
            self._status(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(path.stat().st_size))
        if self.server.fault(-1, self.path) != "ignore":
            self.send_header("Accept-Ranges", "bytes")
        self.end_headers()

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.gets += 1
            fault = self.server.fault(self.server.gets, self.path)
            if fault:
                self.server.faults.append(fault)
        path = self.server.folder / self.path.lstrip("/").split("?")[0]
        if fault and fault.isdigit():
            self._status(int(fault))
            return
        if not path.is_file():
            self._status(404)
            return
        data = path.read_bytes()
        wanted = self.headers.get("Range")
        if wanted and fault != "ignore":
            start, _, stop = wanted.removeprefix("bytes=").partition("-")
            first, last = int(start), min(int(stop or len(data) - 1), len(data) - 1)
            body = data[first : last + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        else:
            body = data
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if fault != "ignore":
            self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if fault in ("cut", "short"):
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            if fault == "cut":
                self.connection.shutdown(2)
            return
        self.wfile.write(body)
        with self.server.lock:
            self.server.sent += len(body)

    def _status(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        if status in (429, 503):
            self.send_header("Retry-After", "0")
        self.end_headers()


@contextmanager
def serving(folder: Path, fault: Callable[[int, str], str | None] = lambda number, path: None) -> Iterator[Server]:
    server = Server(folder, fault)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
