"""Which id each name of a tokenizer.json gets once it is loaded. Reads the JSON alone; runs no tokenizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimbed.errors import TrimError

__all__ = ["Layout", "added_entries", "model_type", "read_layout", "vocabulary_entries"]


@dataclass(frozen=True)
class Layout:
    """The ids of a tokenizer document, as the library assigns them.

    ``model_ids``: name -> id in the model's vocabulary (of a piece listed twice by a Unigram model, the last id).
    ``model_entries``: how many entries that vocabulary has; the first added token outside it gets this id.
    ``added_ids``: the id of each entry of ``added_tokens``, in the file's order; None for an entry that the library
    ignores (an empty one).
    ``size``: the largest id + 1, so the rows that a model needs.
    """

    model_ids: Mapping[str, int]
    model_entries: int
    used_model_ids: frozenset[int]
    added_ids: Sequence[int | None]
    size: int

    def names(self, document: Mapping[str, Any]) -> dict[str, int]:
        """Every name with its id, as ``Tokenizer.get_vocab(with_added_tokens=True)`` gives them."""
        found = dict(self.model_ids)
        for entry, number in zip(added_entries(document), self.added_ids, strict=True):
            if number is not None:
                found[entry["content"]] = number
        return found


def model_type(document: Mapping[str, Any]) -> str:
    """``BPE``, ``Unigram``, ``WordPiece`` or ``WordLevel``; old files don't say, so their keys decide."""
    model = document.get("model")
    if not isinstance(model, Mapping):
        raise TrimError("the tokenizer document has no model; expected a tokenizer.json")
    kind = model.get("type")
    if kind is None:
        if "merges" in model:
            kind = "BPE"
        elif isinstance(model.get("vocab"), Sequence):
            kind = "Unigram"
        elif "max_input_chars_per_word" in model or "continuing_subword_prefix" in model:
            kind = "WordPiece"
        else:
            kind = "WordLevel"
    if kind not in ("BPE", "Unigram", "WordPiece", "WordLevel"):
        raise TrimError(f"the tokenizer's model type is {kind!r}; known are BPE, Unigram, WordPiece and WordLevel")
    return str(kind)


def vocabulary_entries(document: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """(name, id) for each entry of the model's vocabulary, in the file's order."""
    vocabulary = document["model"]["vocab"]
    if isinstance(vocabulary, Mapping):
        yield from vocabulary.items()
    else:
        for number, (piece, _) in enumerate(vocabulary):
            yield piece, number


def added_entries(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The entries of ``added_tokens``, none where the key is missing or null."""
    return document.get("added_tokens") or ()


def read_layout(document: Mapping[str, Any], *, check: bool = True) -> Layout:
    """The ids that the library gives to each entry.

    An added token that stands in the model's vocabulary has that id; the others get the number of vocabulary entries,
    then one more each, in list order. The library ignores the ``id`` that the file writes, so with ``check`` a file
    whose ids say otherwise is refused (TrimError, with the ids): its model's rows follow one of the two, and nothing
    here can tell which.
    """
    model_type(document)
    model_ids: dict[str, int] = {}
    entries = 0
    used: set[int] = set()
    for name, position in vocabulary_entries(document):
        model_ids[name] = position
        used.add(position)
        entries += 1
    following = entries
    outside: dict[str, int] = {}
    added: list[int | None] = []
    wrong: list[str] = []
    for entry in added_entries(document):
        content = entry["content"]
        number: int | None
        if content in model_ids:
            number = model_ids[content]
        elif content in outside:
            number = outside[content]
        elif content == "":
            number = None
        else:
            number = outside[content] = following
            following += 1
        added.append(number)
        written = entry.get("id")
        if check and number is not None and written is not None and written != number:
            wrong.append(f"{content!r} is written as {written} and loads as {number}")
    if wrong:
        shown = "; ".join(wrong[:8]) + ("; …" if len(wrong) > 8 else "")
        raise TrimError(
            f"{len(wrong)} added token{'s' if len(wrong) > 1 else ''} of the tokenizer load with another id than the "
            f"file says: {shown}. Rewrite the source so that both agree (added tokens sorted behind a vocabulary "
            "without holes) before trimming it"
        )
    shared = sorted(number for number in outside.values() if number in used)
    if check and shared:
        names = [f"{name!r} ({number})" for name, number in outside.items() if number in used]
        raise TrimError(
            "added tokens load onto ids of other tokens, because the vocabulary has holes: " + ", ".join(names[:8])
        )
    size = max(max(used, default=-1), max(outside.values(), default=-1)) + 1
    return Layout(model_ids, entries, frozenset(used), tuple(added), size)
