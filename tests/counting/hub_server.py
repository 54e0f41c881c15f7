"""A Hub on loopback: the few routes by which ``huggingface_hub`` and ``datasets`` find and fetch files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves ``folder/datasets/OWNER/NAME`` and ``folder/models/OWNER/NAME``, each with one commit."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._answer(body=True, posted=self.rfile.read(length))

    def _answer(self, *, body: bool, posted: bytes = b"") -> None:
        split = urlsplit(self.path)
        parts = [unquote(part) for part in split.path.strip("/").split("/")]
        self.server.asked.append(f"{self.command} {self.path}")
        if parts[:1] == ["api"] and len(parts) >= 4 and parts[1] in ("datasets", "models"):
            self._api(parts, posted, body)
            return
        kind = "datasets" if parts[0] == "datasets" else "models"
        rest = parts[1:] if kind == "datasets" else parts
        if len(rest) > 4 and rest[2] == "resolve" and rest[3] in ("main", COMMIT):
            self._file(self.server.folder / kind / rest[0] / rest[1] / "/".join(rest[4:]), body)
            return
        self._error(404, "EntryNotFound", body)

    def _api(self, parts: list[str], posted: bytes, body: bool) -> None:
        kind, owner, name, *rest = parts[1:]
        root = self.server.folder / kind / owner / name
        if not root.is_dir():
            self._error(404, "RepoNotFound", body)
            return
        what, revision = [*rest, "", "main"][:2] if rest else ("revision", "main")
        if revision not in ("main", COMMIT):
            self._error(404, "RevisionNotFound", body)
            return
        if what == "revision":
            siblings = [{"rfilename": str(path.relative_to(root))} for path in _files(root)]
            info = {
                "_id": "1",
                "id": f"{owner}/{name}",
                "sha": COMMIT,
                "private": False,
                "gated": False,
                "disabled": False,
            }
            self._json(info | {"siblings": siblings, "tags": [], "downloads": 0, "likes": 0}, body)
        elif what == "tree":
            folder = root / "/".join(rest[2:])
            if not folder.is_dir():
                self._error(404, "EntryNotFound", body)
                return
            query = parse_qs(urlsplit(self.path).query)
            deep = query.get("recursive", ["false"])[0].lower() in ("true", "1")
            found = sorted(folder.rglob("*") if deep else folder.iterdir())
            self._json([_entry(path, root) for path in found], body)
        elif what == "paths-info":
            asked = json.loads(posted) if posted[:1] == b"{" else parse_qs(posted.decode())
            paths = [path for path in asked.get("paths", []) if (root / path).exists()]
            self._json([_entry(root / path, root) for path in paths], body)
        else:
            self._error(404, "EntryNotFound", body)

    def _file(self, path: Path, body: bool) -> None:
        if not path.is_file():
            self._error(404, "EntryNotFound", body)
            return
        data = path.read_bytes()
        wanted = self.headers.get("Range")
        status, part = 200, data
        if wanted:
            start, _, stop = wanted.removeprefix("bytes=").partition("-")
            first, last = int(start or 0), min(int(stop or len(data) - 1), len(data) - 1)
            status, part = 206, data[first : last + 1]
        self.send_response(status)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("ETag", f'"{_oid(data)}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if body:
            self.wfile.write(part)

    def _json(self, value: Any, body: bool) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def _error(self, status: int, code: str, body: bool) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


def _files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def _entry(path: Path, root: Path) -> dict[str, Any]:
    name = str(path.relative_to(root))
    if path.is_dir():
        return {"type": "directory", "oid": "0" * 40, "size": 0, "path": name}
    data = path.read_bytes()
    return {"type": "file", "oid": _oid(data), "size": len(data), "path": name}


@contextmanager
def serving(folder: Path) -> Iterator[Hub]:
    hub = Hub(folder)
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
