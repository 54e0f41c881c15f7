"""Small vocabularies and counts for selection tests: hand-made ones, and hypothesis strategies of any shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import made
import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from trimbed.counting.engine import EngineRecipe, load_engine
from trimbed.selection.frame import Frame
from trimbed.storage.counts import CorpusCounts
from trimbed.tokenizer.dependencies import Dependencies
from trimbed.tokenizer.spec import TokenizerSpec


def relation(size: int, pairs: list[tuple[int, int]]) -> Dependencies:
    """Dependencies from (token, part) pairs."""
    array = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return Dependencies.from_pairs(size, array[:, 0], array[:, 1])


@st.composite
def frames(draw: st.DrawFn, *, weighted: bool = True) -> Frame:
    """A frame of up to 24 tokens, each built from none or two earlier ones, counted in up to three sources."""
    size = draw(st.integers(4, 24))
    pairs = []
    for token in range(2, size):
        if draw(st.booleans()):
            pairs += [(token, draw(st.integers(0, token - 1))) for _ in range(2)]
    names = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True))
    by_source = {
        name: np.array(draw(st.lists(st.integers(0, 30), min_size=size, max_size=size)), dtype=np.int64)
        for name in names
    }
    structural = np.array(draw(st.lists(st.sampled_from([True, False, False, False]), min_size=size, max_size=size)))
    weights = {name: draw(st.sampled_from([0.5, 1.0, 3.0])) for name in names} if weighted else {}
    counts = CorpusCounts(size, by_source, weights)
    return Frame(np.ones(size, dtype=bool), structural, relation(size, pairs), counts.counts, by_source)


def masks(size: int) -> st.SearchStrategy[np.ndarray]:
    return st.lists(st.booleans(), min_size=size, max_size=size).map(lambda values: np.array(values, dtype=bool))


def count(spec: TokenizerSpec, texts: list[str], **sources: list[str]) -> CorpusCounts:
    """Count by encoding: ``texts`` as the source corpus, or each keyword as a source."""
    found = {}
    for name, documents in (sources or {"corpus": texts}).items():
        ids = [index for text in documents for index in spec.encode(text)]
        found[name] = np.bincount(np.array(ids, dtype=np.int64), minlength=spec.vocab_size)
    return CorpusCounts(spec.vocab_size, found)


def added_entry(index: int, content: str, *, special: bool = False, normalized: bool = False) -> dict[str, object]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized, "special": special}
    return {"id": index, "content": content, **flags}


def bpe(
    tokens: list[str], merges: list[tuple[str, str]], *, added: Sequence[str] = (), **model: object
) -> TokenizerSpec:
    """A BPE without normalizer and pre-tokenizer; ``added`` tokens are special and come after the others."""
    vocab = {token: index for index, token in enumerate(tokens)}
    entries = [added_entry(vocab.get(name, len(vocab) + n), name, special=True) for n, name in enumerate(added)]
    document = made.bare_document(made.bare_bpe(vocab, merges, **model), entries)
    return TokenizerSpec.from_document(document)


def counted(document: dict[str, Any], sources: dict[str, list[str]]) -> tuple[CorpusCounts, dict[str, pa.Table]]:
    """Counts and pieces by the kernel."""
    counts, pieces = {}, {}
    engine = load_engine(EngineRecipe("kernel", json.dumps(document), keep_pieces=1_000_000))
    for name, texts in sources.items():
        tally = engine.tally()
        tally.add(pa.array(texts))
        found = tally.finish()
        counts[name], pieces[name] = found.counts, found.pieces
        assert found.pieces_dropped == 0
    return CorpusCounts(len(next(iter(counts.values()))), counts), pieces
