"""Files behind fsspec: listing, what a store says about them, and reading that survives a bad connection.

Knows no formats. Files are never stored: a block at a time is in memory.
"""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, BinaryIO, TypeVar

from trimbed.counting.failures import Kind, failure_of
from trimbed.storage.errors import CountingError, MissingExtra, UsageError

__all__ = ["RemoteInfo", "list_remote", "open_remote", "remote_info"]

_BLOCK = 4 << 20
_TRIES = 6
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 20.0
_LONGEST_RETRY_AFTER = 120.0

Result = TypeVar("Result")


@dataclass(frozen=True)
class RemoteInfo:
    """``size`` in bytes (-1 if the server doesn't say), ``tag``, an entity tag or checksum (empty if there is none),
    and ``ranges``: whether parts of the file can be asked for."""

    size: int
    tag: str
    ranges: bool = True


def open_remote(path: str) -> BinaryIO:
    """A file to read, seekable where the server gives ranges. Raises OSError, FileNotFoundError among them."""
    info = remote_info(path)
    filesystem, inner = _resolve(path)
    if info.ranges:
        return io.BufferedReader(_RangedFile(filesystem, inner, path, info.size), _BLOCK)
    return io.BufferedReader(_StreamedFile(filesystem, inner, path), _BLOCK)


@lru_cache(maxsize=65536)
def remote_info(path: str) -> RemoteInfo:
    """Ask the store, once for each path. Raises OSError."""
    filesystem, inner = _resolve(path)
    info = _retrying(lambda: _info(filesystem, inner), path)
    size = -1 if info.get("size") is None else int(info["size"])
    tag = next((info[key] for key in ("ETag", "etag", "md5Hash", "content_md5", "blob_id") if info.get(key)), "")
    ranges = size >= 0 and info.get("partial") is not False
    if ranges and size and _is_http(path):
        ranges = _retrying(lambda: _http_range(filesystem, inner, 0, 1), path) is not None
    return RemoteInfo(size, str(tag).strip('"'), ranges)


def _info(filesystem: Any, inner: str) -> Any:
    """What the store says. fsspec takes every failure over HTTP for a missing file; the real one is behind it."""
    try:
        return filesystem.info(inner)
    except FileNotFoundError as error:
        cause = error.__cause__
        if isinstance(cause, Exception) and failure_of(cause).kind is Kind.TRANSIENT:
            raise cause from None
        raise


def _is_http(path: str) -> bool:
    return path.startswith(("http://", "https://"))


def _http_range(filesystem: Any, url: str, start: int, stop: int) -> bytes | None:
    """Some bytes of a file, or None from a server that would send all of it instead (which isn't read then)."""
    import fsspec

    async def ask() -> bytes | None:
        session = await filesystem.set_session()
        options = dict(filesystem.kwargs)
        headers = dict(options.pop("headers", {})) | {
            "Range": f"bytes={start}-{stop - 1}",
            "Accept-Encoding": "identity",
        }
        async with session.get(filesystem.encode_url(url), headers=headers, **options) as response:
            if response.status in (404, 410):
                raise FileNotFoundError(f"{url}: HTTP {response.status}")
            response.raise_for_status()
            if response.status != 206:
                response.close()
                return None
            data: bytes = await response.read()
            return data

    result: bytes | None = fsspec.asyn.sync(filesystem.loop, ask)
    return result


def list_remote(base: str, patterns: list[str] | None) -> Iterator[tuple[str, str]]:
    """(name within ``base``, URL) of the files that ``patterns`` match, or of all files at or below ``base``.

    Raises UsageError where a pattern matches nothing, OSError where the store can't be asked.
    """
    wanted = [base] if patterns is None else [_join(base, pattern) for pattern in patterns]
    for url in wanted:
        filesystem, inner = _resolve(url)
        if any(character in url.split("?")[0] for character in "*[") and not url.startswith("http"):
            found = _retrying(partial(filesystem.glob, inner), url)
        elif url.startswith("http"):
            found = [inner]
        else:
            found = _retrying(partial(filesystem.find, inner), url)
        if not found:
            raise UsageError(f"no file matches {url!r}")
        root = _resolve(base)[1].rstrip("/") + "/" if base else ""
        for path in sorted(map(str, found)):
            inside = path[len(root) :] if root and path.startswith(root) else path.split("?")[0].rsplit("/", 1)[-1]
            yield inside, path if "://" in path else filesystem.unstrip_protocol(path)


def _join(base: str, pattern: str) -> str:
    return pattern if "://" in pattern or not base else f"{base.rstrip('/')}/{pattern}"


def _resolve(path: str) -> tuple[Any, str]:
    import fsspec

    try:
        filesystem, inner = fsspec.core.url_to_fs(path)
    except ImportError as error:
        raise MissingExtra(f"{path}: {error}; for s3:// install trimbed[s3]") from error
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    return filesystem, str(inner)


class _RangedFile(io.RawIOBase):
    """Reads by asking for ranges; each request is tried again for what is still missing of it."""

    def __init__(self, filesystem: Any, inner: str, path: str, size: int) -> None:
        self._filesystem = filesystem
        self._inner = inner
        self._path = path
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        start, stop = self._position, min(self._size, self._position + len(buffer))
        if stop <= start:
            return 0
        data: bytes = _retrying(lambda: self._range(start, stop), self._path)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _range(self, start: int, stop: int) -> bytes:
        data: bytes | None
        if _is_http(self._path):
            data = _http_range(self._filesystem, self._inner, start, stop)
            if data is None:
                raise ConnectionError(f"{self._path}: the server no longer gives parts of the file")
        else:
            data = self._filesystem.cat_file(self._inner, start=start, end=stop)
        if len(data) > stop - start:
            raise CountingError(f"{self._path}: the server sent {len(data)} bytes where {stop - start} were asked for")
        if not data:
            raise ConnectionError(f"{self._path}: the server sent nothing for bytes {start} to {stop}")
        return data


class _StreamedFile(io.RawIOBase):
    """Reads from the beginning on; a broken stream is opened anew and what was read already is passed over."""

    def __init__(self, filesystem: Any, inner: str, path: str) -> None:
        self._filesystem = filesystem
        self._inner = inner
        self._path = path
        self._position = 0
        self._stream: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = _retrying(lambda: self._next(len(buffer)), self._path)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._drop()
        super().close()

    def _next(self, length: int) -> bytes:
        try:
            if self._stream is None:
                self._stream = self._filesystem.open(self._inner, "rb", block_size=0)
                left = self._position
                while left:
                    passed = len(self._stream.read(min(left, _BLOCK)))
                    if not passed:
                        raise ConnectionError(
                            f"{self._path}: ended at byte {self._position - left}, and was longer before"
                        )
                    left -= passed
            data: bytes = self._stream.read(length)
            return data
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            try:
                stream.close()
            except OSError:
                pass


def _retrying(attempt: Callable[[], Result], path: str) -> Result:
    """Try again, ever later, what may pass; what a server says about when is heeded. The last error passes through."""
    for number in range(1, _TRIES + 1):
        try:
            return attempt()
        except Exception as error:
            if number == _TRIES or failure_of(error).kind is not Kind.TRANSIENT:
                raise
            wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** (number - 1)) * (0.5 + random.random())
            time.sleep(max(wait, _retry_after(error)))
    raise AssertionError(path)


def _retry_after(error: Exception) -> float:
    headers = getattr(error, "headers", None) or {}
    value = headers.get("Retry-After", "")
    return min(_LONGEST_RETRY_AFTER, float(value)) if str(value).isdecimal() else 0.0
