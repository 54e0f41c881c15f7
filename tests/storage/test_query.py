"""Asking a cache in SQL, and what SQL can't do to it."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import filled

from trimbed.storage.cache import CountsCache
from trimbed.storage.errors import CacheError, UsageError
from trimbed.storage.query import VIEWS, describe_views, examples, open_connection, run_query, stream_query


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> CountsCache:
    return filled.full(tmp_path_factory.mktemp("sql") / "counts")


def rows(cache: CountsCache, sql: str, **options: object) -> list[tuple[object, ...]]:
    table = run_query(cache, sql, **options).table  # type: ignore[arg-type]
    return [tuple(row.values()) for row in table.to_pylist()]


def test_tokens_has_every_id_with_count_rank_and_shares(cache: CountsCache) -> None:
    found = rows(cache, "select token_id, surface, count, rank, share, cumulative_share from tokens")
    assert len(found) == filled.VOCAB
    assert found[:3] == [
        (1, "s1", 33, 1, 33 / 108, 33 / 108),
        (2, "s2", 33, 2, 33 / 108, 66 / 108),
        (3, "s3", 14, 3, 14 / 108, 80 / 108),
    ]
    assert found[4] == (5, "s5", 14, 5, 14 / 108, 1.0)
    assert found[5] == (0, None, 0, None, 0.0, None)
    assert rows(cache, "select by_source from tokens where token_id = 1") == [([("de", 3), ("nl/dutch", 30)],)]


def test_weights_are_applied_on_reading(cache: CountsCache) -> None:
    weights = {"de": 100.0, "nl/dutch": 0.5}
    found = rows(cache, "select token_id, count, weighted from tokens where rank < 4", weights=weights)
    assert found == [(3, 14, 703.5), (4, 14, 703.5), (5, 14, 703.5)]
    ranked = cache.read_counts().with_weights(weights).ranked_ids().tolist()
    assert [row[0] for row in rows(cache, "select token_id from tokens where rank > 0", weights=weights)] == ranked
    with pytest.raises(UsageError, match="no source 'fr'"):
        run_query(cache, "select * from tokens", weights={"fr": 2.0})


def test_the_other_views(cache: CountsCache) -> None:
    assert rows(cache, "select source, token_id, count, rank, share from tokens_by_source where rank = 1") == [
        ("de", 3, 7, 1, 7 / 27),
        ("nl/dutch", 1, 30, 1, 30 / 81),
    ]
    assert rows(
        cache, "select source, weight, shards, shards_planned, complete, documents, skipped_rows, tokens from sources"
    ) == [
        ("de", 1.0, 3, 3, True, 6, 3, 27),
        ("nl/dutch", 1.0, 3, 3, True, 6, 3, 81),
    ]
    assert rows(cache, "select shard, tokens, skip_reasons from shards where source = 'de'") == [
        ("00000000", 8, '{"null": 0}'),
        ("00000001", 9, '{"null": 1}'),
        ("00000002", 10, '{"null": 2}'),
    ]
    assert rows(cache, "select piece, text, initial, count from pieces where source = 'de' order by piece") == [
        (b"a", "a", False, 3),
        (b"b", "b", True, 6),
        (b"\xff", None, False, 3),
    ]
    assert rows(cache, "select count(*), max(token) from vocabulary") == [(16, "t9")]
    assert rows(cache, "select source, shard, row, text from samples limit 1") == [
        ("de", "00000000", 0, "00000000, row 0")
    ]


def test_every_view_is_described_with_its_columns() -> None:
    described = {view.name: view for view in describe_views()}
    assert list(described) == list(VIEWS)
    assert all(view.description and view.columns for view in described.values())
    assert ("cumulative_share", "DOUBLE") in described["tokens"].columns


def test_every_example_runs(cache: CountsCache) -> None:
    assert len(examples()) == 5
    for question, query in examples():
        assert question
        assert run_query(cache, query).table.num_columns


def test_a_query_that_names_no_view_can_list_them(cache: CountsCache) -> None:
    assert set(VIEWS) <= {row[0] for row in rows(cache, "show tables")}
    assert rows(cache, "select 1 + 1") == [(2,)]


def test_what_a_query_does_not_name_is_not_read(tmp_path: Path) -> None:
    broken = filled.full(tmp_path)
    (tmp_path / "tokens" / "source=de" / "00000000.parquet").write_bytes(b"no Parquet")
    assert rows(broken, "select sum(tokens) from shards") == [(108,)]
    with pytest.raises(CacheError, match="digest"):
        run_query(broken, "select sum(count) from tokens")


@pytest.mark.parametrize(
    "query",
    [
        "with unused as (select * from samples) select sum(count) from tokens",
        "select * from query('select sum(count) from tokens')",
        "select sum(count) from query_table('tokens')",
        "select sum(count) from query_table(['tok' || 'ens'])",
        "select (select sum(count) from tokens) from sources where source = 'de'",
        "select sum(t.count) from main.TOKENS t left join samples s on s.text = t.token",
        "from tokens select sum(count) where exists (from pieces)",
    ],
)
def test_tables_are_found_however_a_query_names_them(cache: CountsCache, query: str) -> None:
    assert rows(cache, query) == [(108,)]


def test_an_empty_cache_can_be_asked(tmp_path: Path) -> None:
    empty = CountsCache.create_or_open(tmp_path, filled.manifest("de"))
    for view in VIEWS:
        assert run_query(empty, f"select * from {view}").table.num_rows == (1 if view == "sources" else 0)


def test_rows_are_capped_and_it_is_said(cache: CountsCache) -> None:
    assert run_query(cache, "select * from range(100000)", max_rows=10).cut
    assert run_query(cache, "select * from range(100000)", max_rows=10).table.num_rows == 10
    exact = run_query(cache, "select * from range(10)", max_rows=10)
    assert (exact.table.num_rows, exact.cut) == (10, False)
    assert run_query(cache, "select * from range(50000)", max_rows=None).table.num_rows == 50000


def test_a_query_that_takes_too_long_is_stopped(cache: CountsCache) -> None:
    with pytest.raises(UsageError, match="longer than"):
        run_query(cache, "select sum(a.range * b.range) from range(100000000) a, range(1000000) b", timeout=0.3)
    threads = threading.active_count()
    with (
        pytest.raises(UsageError, match="longer than"),
        stream_query(cache, "select * from range(1000000000000)", timeout=0.3) as reader,
    ):
        for _ in reader:
            pass
    assert threading.active_count() <= threads


@pytest.mark.parametrize(
    "attack",
    [
        "copy (select 1) to '{out}'",
        "copy tokens to '{out}' (format parquet)",
        "explain analyze copy (select 1) to '{out}'",
        "explain select 1",
        "select * from read_csv('{secret}')",
        "select * from read_text('{secret}')",
        "select * from read_blob('{secret}')",
        "select * from read_parquet('{secret}')",
        "select * from read_json('{secret}')",
        "select * from sniff_csv('{secret}')",
        "select * from parquet_metadata('{secret}')",
        "select * from '{secret}'",
        "select * from glob('{folder}/*')",
        "select * from query('select * from read_text(''{secret}'')')",
        "select (select content from read_text('{secret}'))",
        "with t as (select * from read_text('{secret}')) select * from t",
        "select * from read_text(['{secret}', '/etc/passwd'])",
        "attach '{out}' as other",
        "attach ':memory:' as other",
        "install httpfs",
        "load httpfs",
        "pragma database_list",
        "pragma enable_external_access",
        "set enable_external_access = true",
        "set lock_configuration = false",
        "reset enable_external_access",
        "select 1; select 2",
        "select 1; copy (select 1) to '{out}'",
        "export database '{folder}/x'",
        "create table t as select 1",
        "drop view tokens",
        "delete from tokens",
        "update tokens set count = 1",
        "insert into tokens values (1)",
        "call pragma_version()",
        "prepare x as select 1",
        "checkpoint",
        "vacuum",
        "",
        "  ;  ",
        "-- nothing",
        "selec 1",
    ],
)
def test_no_query_reads_or_writes_elsewhere(cache: CountsCache, tmp_path: Path, attack: str) -> None:
    secret, out = tmp_path / "secret", tmp_path / "out"
    secret.write_text("a secret")
    before = filled.files(cache.location)
    with pytest.raises(UsageError) as caught:
        run_query(cache, attack.format(secret=secret, out=out, folder=tmp_path))
    assert "a secret" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret"]
    assert filled.files(cache.location) == before


def test_a_table_that_was_not_loaded_is_an_error_and_never_an_empty_answer(cache: CountsCache) -> None:
    connection = open_connection(cache, tables=["_shards"])
    try:
        assert connection.execute("select sum(tokens) from shards").fetchall() == [(108,)]
        assert connection.execute("describe vocabulary").fetchall()[0][0] == "token_id"
        with pytest.raises(Exception, match="not loaded"):
            connection.execute("select * from vocabulary").fetchall()
    finally:
        connection.close()


def test_python_variables_are_not_tables(cache: CountsCache) -> None:
    hidden = cache.vocabulary()
    assert hidden.num_rows
    with pytest.raises(UsageError, match="hidden"):
        run_query(cache, "select * from hidden")


def test_the_configuration_is_locked_in_an_open_connection_too(cache: CountsCache, tmp_path: Path) -> None:
    connection = open_connection(cache)
    try:
        for statement in ("set enable_external_access = true", "set lock_configuration = false", "set threads = 1"):
            with pytest.raises(Exception, match="locked"):
                connection.execute(statement)
        with pytest.raises(Exception, match="file system operations are disabled"):
            connection.execute(f"copy tokens to '{tmp_path / 'out'}'")
    finally:
        connection.close()


def test_memory_is_limited_and_the_rest_is_spilled_to_the_chosen_folder(cache: CountsCache, tmp_path: Path) -> None:
    ordered = "select row_number() over (order by md5(range::varchar)) as place from range(1500000)"
    query = f"select count(*) from ({ordered}) where place > 0"
    assert rows(cache, query, memory_limit="40MB", temp_dir=str(tmp_path), threads=1) == [(1500000,)]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="memory limit"):
        run_query(cache, "select 1", memory_limit="plenty")


@pytest.mark.slow
def test_two_thousand_shards_of_a_large_vocabulary_are_asked_in_little_memory(tmp_path: Path) -> None:
    size, shards = 262_144, 2000
    cache = CountsCache.create_or_open(tmp_path / "counts", filled.manifest("de", shards=shards, vocab_size=size))
    record = filled.put(cache, "de", "first", {index: 1 + index % 7 for index in range(size)})
    for kind in ("tokens", "shards"):
        suffix = "json" if kind == "shards" else "parquet"
        first = tmp_path / "counts" / kind / "source=de" / f"first.{suffix}"
        for index in range(shards - 1):
            copy = first.with_name(f"{index:08d}.{suffix}")
            copy.write_bytes(first.read_bytes().replace(b'"shard": "first"', f'"shard": "{index:08d}"'.encode()))
    query = "select sum(count)::bigint as n from tokens"
    found = rows(cache, query, memory_limit="512MB", temp_dir=str(tmp_path / "spill"))
    assert found == [(record.tokens * shards,)]
