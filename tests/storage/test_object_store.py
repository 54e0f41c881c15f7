"""A cache in an object store: a real S3 server implementation on loopback, and fsspec's memory store."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import filled

from trimbed.storage import location as location_module
from trimbed.storage import lock as lock_module
from trimbed.storage.cache import CountsCache
from trimbed.storage.compaction import compact
from trimbed.storage.errors import CacheError, CacheMismatch
from trimbed.storage.location import resolve
from trimbed.storage.lock import Lease, lock
from trimbed.storage.merging import merge
from trimbed.storage.query import run_query
from trimbed.storage.verification import verify


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "_SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(location_module, "_FIRST_WAIT", 0.001)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """The URL of an empty bucket."""
    import fsspec
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    before = fsspec.config.conf.get("s3")
    fsspec.config.conf["s3"] = {"key": "test", "secret": "test", "endpoint_url": f"http://{host}:{port}"}
    fsspec.filesystem("s3").mkdir("counts", create_parents=True)
    try:
        yield "s3://counts"
    finally:
        if before is None:
            del fsspec.config.conf["s3"]
        else:
            fsspec.config.conf["s3"] = before
        server.stop()


@pytest.fixture(params=["s3", "memory"])
def url(request: pytest.FixtureRequest) -> str:
    base = request.getfixturevalue("s3") if request.param == "s3" else "memory://counts"
    return f"{base}/{uuid.uuid4().hex}"


def test_a_cache_is_counted_read_asked_compacted_and_merged_where_it_lies(url: str) -> None:
    cache = filled.full(f"{url}/one")
    assert CountsCache.open(f"{url}/one").read_counts().total_num_tokens == 108
    assert cache.committed_keys("nl/dutch") == {"00000000", "00000001", "00000002"}
    with pytest.raises(CacheMismatch):
        CountsCache.create_or_open(f"{url}/one", filled.manifest("de", shards=9, keep_pieces=100))
    query = "select source, sum(count) as n from pieces group by source order by source"
    before = run_query(cache, query).table.to_pylist()
    assert before == [{"source": "de", "n": 12}, {"source": "nl/dutch", "n": 39}]
    assert run_query(cache, "select sum(count) as n from tokens").table.to_pylist() == [{"n": 108}]
    assert verify(cache).sound
    assert [done.packs for done in compact(cache)] == [1, 1]
    assert run_query(cache, query).table.to_pylist() == before
    assert verify(cache).leftovers == ()
    merge([f"{url}/one"], f"{url}/two")
    assert CountsCache.open(f"{url}/two").read_counts().total_num_tokens == 108


def test_there_is_no_cache_where_nothing_is(url: str) -> None:
    with pytest.raises(CacheError, match="there is no counts cache"):
        CountsCache.open(f"{url}/nothing")


def test_a_place_behaves_the_same_everywhere(url: str, tmp_path: Path) -> None:
    for place in (resolve(url), resolve(tmp_path)):
        assert place.names("a") == []
        place.write("a/x.json", b"one")
        place.write("a/x.json", b"two")
        place.write("a/b/y.json", b"three")
        assert place.names("a") == ["x.json"]
        assert place.folders("a") == ["b"]
        assert place.read("a/x.json", limit=3) == b"two"
        with pytest.raises(CacheError, match="more than 2 bytes"):
            place.read("a/x.json", limit=2)
        assert place.exists("a/x.json")
        place.remove("a/x.json")
        place.remove("a/x.json")
        assert not place.exists("a/x.json")
        with pytest.raises(FileNotFoundError):
            place.read("a/x.json", limit=3)


def test_a_lease_keeps_others_out_and_runs_out_with_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    place = resolve(f"memory://counts/{uuid.uuid4().hex}")
    with lock(place, "maintenance") as lease:
        lease.renew()
        with pytest.raises(CacheError, match="another process"), lock(place, "maintenance", wait=0):
            pass
    with lock(place, "maintenance", wait=0):
        pass
    dead = Lease(place, "locks/maintenance.json")
    monkeypatch.setattr(lock_module, "_LEASE_SECONDS", -1.0)
    dead.claim()
    monkeypatch.undo()
    monkeypatch.setattr(lock_module, "_SETTLE_SECONDS", 0.01)
    with lock(place, "maintenance", wait=0):
        with pytest.raises(CacheError, match="took the lock"):
            dead.renew()
        dead.release()
        assert place.exists("locks/maintenance.json")


def test_a_store_that_fails_now_and_then_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = filled.full(f"memory://counts/{uuid.uuid4().hex}")
    original = cache.place.filesystem.open
    calls = 0
    guard = threading.Lock()

    def flaky(*arguments: object, **options: object) -> object:
        nonlocal calls
        with guard:
            calls += 1
            fails = calls % 3 == 0
        if fails:
            raise OSError("503 slow down")
        return original(*arguments, **options)

    monkeypatch.setattr(cache.place.filesystem, "open", flaky)
    assert cache.read_counts().total_num_tokens == 108
    assert calls > 12
    monkeypatch.setattr(cache.place.filesystem, "open", lambda *a, **k: (_ for _ in ()).throw(OSError("503")))
    with pytest.raises(CacheError, match=r"503 \(tried 5 times\)"):
        cache.read_counts()
