"""Cuts a tokenizer.json to the kept ids, in the JSON itself. Knows nothing of checkpoints, files or policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trimbed.errors import TrimError
from trimbed.trimming.layout import Layout, added_entries, model_type, read_layout, vocabulary_entries

__all__ = ["check_loads", "trim_document"]

Document = dict[str, Any]


def trim_document(
    document: Mapping[str, Any], kept: Iterable[int] | np.ndarray, *, check: bool = True
) -> tuple[Document, np.ndarray]:
    """Cut ``document`` (the content of a tokenizer.json) to the ``kept`` ids.

    Returns the new document and ``old_to_new``: int64[V], V the source's largest id + 1, with -1 for ids that are
    dropped or were never used. Kept ids keep their order: first those of the model's vocabulary, then the added tokens
    outside it. Everything that doesn't carry an id or a dropped name stays as it was, key order included; the source
    isn't changed, and parts that don't change are shared with it.

    >>> small, old_to_new = trim_document(json.loads(Path("tokenizer.json").read_text()), [0, 1, 2, 17, 40])

    With ``check``, the result is loaded with the reference library and every id it gives must be the one written.

    Raises TrimError, with the reason, for ids that don't exist, for sources that load with other ids than they write,
    for merges that name missing tokens, and where something that the document itself uses is dropped: the unknown
    token, ids of the post-processor, the padding token, a Unigram model's lowest score. Whether a kept set is closed
    (every kept token can still be built) is the caller's to see to.
    """
    layout = read_layout(document)
    keep = _mask(kept, layout)
    kind = model_type(document)
    old_to_new = _renumber(document, layout, keep)

    model = dict(document["model"])
    if kind == "Unigram":
        model["vocab"] = [entry for number, entry in enumerate(model["vocab"]) if keep[number]]
        _check_unigram_scores(document, model)
        if model.get("unk_id") is not None:
            model["unk_id"] = _required(old_to_new, model["unk_id"], "model.unk_id, the unknown token", document)
    else:
        model["vocab"] = {
            name: int(old_to_new[number]) for name, number in vocabulary_entries(document) if keep[number]
        }
        unk = model.get("unk_token")
        if unk is not None and unk in layout.model_ids and unk not in model["vocab"]:
            raise TrimError(f"the unknown token {unk!r} (id {layout.model_ids[unk]}) must be kept; the model names it")
    if kind == "BPE":
        model["merges"] = _surviving_merges(model, layout, old_to_new)

    result = dict(document)
    result["model"] = model
    if "added_tokens" in document and document["added_tokens"] is not None:
        result["added_tokens"] = _surviving_added(document, layout, old_to_new)
    if document.get("post_processor") is not None:
        result["post_processor"] = _post_processor(document["post_processor"], old_to_new, document)
    if document.get("padding") is not None:
        padding = dict(document["padding"])
        padding["pad_id"] = _required(old_to_new, padding["pad_id"], "padding.pad_id", document)
        result["padding"] = padding
    if check:
        check_loads(result)
    return result, old_to_new


def check_loads(document: Mapping[str, Any]) -> None:
    """Load ``document`` with the reference library; raise TrimError unless every id is the one the document writes."""
    import json

    from tokenizers import Tokenizer

    try:
        loaded = Tokenizer.from_str(json.dumps(document, ensure_ascii=False)).get_vocab(with_added_tokens=True)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the library is no Exception
        raise TrimError(f"the trimmed tokenizer doesn't load: {error}") from None
    layout = read_layout(document)
    written = layout.names(document)
    if loaded != written:
        names = sorted(set(loaded) ^ set(written)) + sorted(
            name for name in set(loaded) & set(written) if loaded[name] != written[name]
        )
        shown = ", ".join(f"{name!r}: wrote {written.get(name)}, loaded {loaded.get(name)}" for name in names[:8])
        raise TrimError(f"{len(names)} tokens of the trimmed tokenizer load with other ids than written: {shown}")


def _mask(kept: Iterable[int] | np.ndarray, layout: Layout) -> np.ndarray:
    """bool[V]; True for ids that are kept. Ids out of range or without a token are an error, repeats are not."""
    ids = np.asarray(kept if isinstance(kept, np.ndarray) else list(kept))
    if ids.dtype == bool:
        raise TrimError("kept ids are expected, not a mask; pass numpy.flatnonzero(mask)")
    if ids.size and not np.issubdtype(ids.dtype, np.integer):
        raise TrimError(f"kept ids must be integers, not {ids.dtype}")
    ids = ids.astype(np.int64, copy=False).reshape(-1)
    present = np.zeros(layout.size, dtype=bool)
    present[sorted(layout.used_model_ids)] = True
    present[[number for number in layout.added_ids if number is not None]] = True
    outside = ids[(ids < 0) | (ids >= layout.size)]
    missing = outside if outside.size else ids[~present[ids]]
    if missing.size:
        shown = ", ".join(str(number) for number in sorted({int(n) for n in missing})[:8])
        raise TrimError(f"kept ids without a token in this tokenizer (ids 0 to {layout.size - 1}): {shown}")
    if not ids.size:
        raise TrimError("nothing is kept; a tokenizer needs at least one token")
    keep = np.zeros(layout.size, dtype=bool)
    keep[ids] = True
    return keep


def _renumber(document: Mapping[str, Any], layout: Layout, keep: np.ndarray) -> np.ndarray:
    """int64[V]. Two names may share an id; then the library counts both before it numbers added tokens, as here."""
    old_to_new = np.full(layout.size, -1, dtype=np.int64)
    in_model = [number for number in sorted(layout.used_model_ids) if keep[number]]
    old_to_new[in_model] = np.arange(len(in_model))
    following = sum(1 for _, number in vocabulary_entries(document) if keep[number])
    for number in layout.added_ids:
        if number is not None and number not in layout.used_model_ids and keep[number] and old_to_new[number] < 0:
            old_to_new[number] = following
            following += 1
    return old_to_new


def _required(old_to_new: np.ndarray, number: int, what: str, document: Mapping[str, Any]) -> int:
    if not 0 <= number < len(old_to_new):
        raise TrimError(f"{what} is {number}, which no token has; the tokenizer has ids 0 to {len(old_to_new) - 1}")
    new = int(old_to_new[number])
    if new < 0:
        names = [name for name, other in read_layout(document).names(document).items() if other == number]
        raise TrimError(f"{what} is id {number} ({names[0] if names else 'no token'!r}), which must be kept")
    return new


def _check_unigram_scores(document: Mapping[str, Any], model: Mapping[str, Any]) -> None:
    """An unknown character costs the lowest score of the vocabulary less 10: losing that score changes kept text."""
    if model.get("unk_id") is None:
        return
    lowest = min(score for _, score in document["model"]["vocab"])
    if not any(score == lowest for _, score in model["vocab"]):
        number, piece = next((n, p) for n, (p, s) in enumerate(document["model"]["vocab"]) if s == lowest)
        raise TrimError(
            f"the piece with the lowest score ({piece!r}, id {number}, score {lowest}) must be kept: the cost of an "
            "unknown character is derived from it"
        )


def split_merge(merge: Any, index: int) -> tuple[str, str]:
    """One merge rule in either form, ``["a", "b"]`` or ``"a b"``. Raises TrimError with its index."""
    parts: Sequence[Any] = merge.split(" ") if isinstance(merge, str) else merge
    if len(parts) != 2 or not all(isinstance(part, str) for part in parts):
        raise TrimError(
            f"merge {index} is {merge!r}; expected two parts. Tokens with a space need the list form, [left, right]"
        )
    return parts[0], parts[1]


def merge_product(left: str, right: str, prefix: str | None) -> str:
    """The token that a merge builds. The library cuts the prefix's length off the right part, whatever stands there."""
    if not prefix:
        return left + right
    return left + right.encode("utf-8")[len(prefix) :].decode("utf-8", "replace")


def _surviving_merges(model: Mapping[str, Any], layout: Layout, old_to_new: np.ndarray) -> list[Any]:
    """Merges whose three tokens survive, in order and in the source's form.

    Of a pair that is listed twice the last position is the one that counts, so that one is written: readers that take
    the first then agree with the library.
    """
    prefix = model.get("continuing_subword_prefix")
    ids = layout.model_ids
    last: dict[tuple[int, int], int] = {}
    surviving: list[tuple[int, tuple[int, int], Any]] = []
    for index, merge in enumerate(model.get("merges") or ()):
        if isinstance(merge, str) and merge.startswith("#version"):
            continue
        left, right = split_merge(merge, index)
        product = merge_product(left, right, prefix)
        for role, name in (("left part", left), ("right part", right), ("product", product)):
            if name not in ids:
                raise TrimError(f"merge {index} ({left!r} + {right!r}): its {role} {name!r} is not in the vocabulary")
        pair = (ids[left], ids[right])
        last[pair] = index
        if old_to_new[pair[0]] >= 0 and old_to_new[pair[1]] >= 0 and old_to_new[ids[product]] >= 0:
            surviving.append((index, pair, merge))
    return [merge for index, pair, merge in surviving if last[pair] == index]


def _surviving_added(document: Mapping[str, Any], layout: Layout, old_to_new: np.ndarray) -> list[Document]:
    """Kept entries with all their flags and the new id, by id: the library numbers by position, not by ``id``."""
    kept = []
    for entry, number in zip(added_entries(document), layout.added_ids, strict=True):
        if number is not None and old_to_new[number] >= 0:
            changed = dict(entry)
            changed["id"] = int(old_to_new[number])
            kept.append(changed)
    return sorted(kept, key=lambda entry: int(entry["id"]))


def _post_processor(processor: Mapping[str, Any], old_to_new: np.ndarray, document: Mapping[str, Any]) -> Document:
    """Renumber the ids of a post-processor; a template's entries that it never uses go with their tokens."""
    result = dict(processor)
    kind = processor.get("type")
    if kind == "Sequence":
        result["processors"] = [_post_processor(inner, old_to_new, document) for inner in processor["processors"]]
    elif kind in ("BertProcessing", "RobertaProcessing"):
        for key in ("sep", "cls"):
            name, number = processor[key]
            result[key] = [name, _required(old_to_new, number, f"the post-processor's {key}", document)]
    elif kind == "TemplateProcessing":
        used = {
            step["SpecialToken"]["id"]
            for part in (processor.get("single") or (), processor.get("pair") or ())
            for step in part
            if isinstance(step, Mapping) and "SpecialToken" in step
        }
        special = {}
        for name, entry in (processor.get("special_tokens") or {}).items():
            gone = any(not 0 <= n < len(old_to_new) or old_to_new[n] < 0 for n in entry["ids"])
            if gone and name not in used:
                continue
            what = f"the post-processor's {name!r}"
            ids = [_required(old_to_new, number, what, document) for number in entry["ids"]]
            special[name] = {**entry, "ids": ids}
        result["special_tokens"] = special
    elif kind != "ByteLevel":
        raise TrimError(f"a post-processor of type {kind!r} may carry ids; known are the library's own five types")
    return result
