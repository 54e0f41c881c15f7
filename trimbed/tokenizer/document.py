"""A tokenizer.json as it stands: read leniently, checked before any native code sees it, edited as plain JSON.

Knows the file's fields and the loader's rules for ids; knows nothing about side files, other formats or algorithms.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trimbed.errors import TokenizerError

__all__ = ["AddedToken", "TokenizerDocument"]

_ALGORITHMS = {"BPE": "bpe", "Unigram": "unigram", "WordPiece": "wordpiece", "WordLevel": "wordlevel"}


@dataclass(frozen=True)
class AddedToken:
    """An ``added_tokens`` entry with the id that the loader gives it, and its five flags."""

    id: int
    content: str
    special: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


class TokenizerDocument:
    """One tokenizer.json.

    ``data`` is the JSON as read, unknown fields included. The parsed views below are made once; to edit, change a
    ``copy()``'s data before looking at its views, or make a new document from it.
    """

    def __init__(self, data: dict[str, Any], *, origin: str = "tokenizer.json", text: str | None = None) -> None:
        self.data = data
        self.origin = origin
        self._text = text
        self._check_shape()

    @classmethod
    def parse(cls, source: str | bytes | Mapping[str, Any], *, origin: str = "tokenizer.json") -> TokenizerDocument:
        """A document from JSON text or an already parsed mapping (which is not copied).

        Raises TokenizerError where it isn't JSON or not a tokenizer.json.
        """
        if isinstance(source, Mapping):
            return cls(source if isinstance(source, dict) else dict(source), origin=origin)
        try:
            text = source.decode("utf-8") if isinstance(source, bytes) else source
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise TokenizerError(f"{origin} is not valid JSON ({error}); is the file whole?") from None
        if not isinstance(data, dict):
            raise TokenizerError(f"{origin} is not a tokenizer.json: it holds a {type(data).__name__}, not an object")
        return cls(data, origin=origin, text=text)

    def text(self) -> str:
        """The document as JSON text, truncation and padding as they are."""
        if self._text is None:
            self._text = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        return self._text

    def copy(self) -> TokenizerDocument:
        return TokenizerDocument(copy.deepcopy(self.data), origin=self.origin)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of what the tokenizer does: the document without truncation and padding, keys sorted, merges as pairs.

        Equal for the string and the pair form of the same merges, and whatever the order of keys and white space.
        """
        data = {key: value for key, value in self.data.items() if key not in ("truncation", "padding")}
        if self.algorithm == "bpe":
            data["model"] = {**self.model, "merges": self.merges}
        canonical = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def model(self) -> dict[str, Any]:
        model: dict[str, Any] = self.data["model"]
        return model

    @cached_property
    def algorithm(self) -> str:
        """bpe, unigram, wordpiece or wordlevel. Old files leave ``type`` out; then the fields tell."""
        kind = self.model.get("type")
        if kind is None:
            vocab = self.model.get("vocab")
            if isinstance(vocab, list):
                kind = "Unigram"
            elif "merges" in self.model:
                kind = "BPE"
            else:
                kind = "WordPiece" if "max_input_chars_per_word" in self.model else "WordLevel"
        if kind not in _ALGORITHMS:
            raise TokenizerError(
                f"{self.origin}: model type {kind!r} is not one we can read; known are {', '.join(_ALGORITHMS)}"
            )
        return _ALGORITHMS[kind]

    @cached_property
    def vocab(self) -> dict[str, int]:
        """The model's own vocabulary, token -> id, without added tokens beyond it."""
        vocab = self.model["vocab"]
        if isinstance(vocab, list):
            # The library's map is filled in order, so a later piece of the same name wins.
            return {piece[0]: index for index, piece in enumerate(vocab)}
        return vocab  # type: ignore[no-any-return]

    @cached_property
    def scores(self) -> list[float]:
        """Unigram only: the score of each piece, by id."""
        return [float(piece[1]) for piece in self.model["vocab"]]

    @cached_property
    def merges(self) -> list[tuple[str, str]]:
        """BPE only: the merges in order, whichever of the two forms the file has.

        Raises TokenizerError naming the index of a merge that is neither a pair nor a string with one space.
        """
        merges = self.model.get("merges") or []
        pairs: list[tuple[str, str]] = []
        for index, merge in enumerate(merges):
            if isinstance(merge, str):
                if index == 0 and merge.startswith("#version"):
                    continue
                parts: Any = merge.split(" ")
            else:
                parts = merge
            if not isinstance(parts, list | tuple) or len(parts) != 2 or not all(isinstance(p, str) for p in parts):
                raise TokenizerError(
                    f"{self.origin}: merge {index} is {merge!r}, which is not two tokens"
                    + (" (a token with a space needs the pair form)" if isinstance(merge, str) else "")
                )
            pairs.append((parts[0], parts[1]))
        return pairs

    @property
    def merges_are_strings(self) -> bool:
        """Whether the file writes a merge as "a b" rather than ["a", "b"]."""
        merges = self.model.get("merges") or []
        return bool(merges) and isinstance(merges[0], str)

    def affix(self, name: str) -> str:
        """``continuing_subword_prefix`` or ``end_of_word_suffix``, "" where null or missing."""
        value = self.model.get(name)
        if value is None and name == "continuing_subword_prefix" and self.algorithm == "wordpiece":
            return "##"
        return value or ""

    def product(self, left: str, right: str) -> str:
        """The token that merging these two makes: the right part loses the continuing prefix.

        The loader cuts as many bytes as the prefix has characters, whether or not the part begins with it.
        """
        cut = len(self.affix("continuing_subword_prefix"))
        if not cut:
            return left + right
        return left + right.encode("utf-8", "surrogatepass")[cut:].decode("utf-8", "surrogatepass")

    @cached_property
    def added_tokens(self) -> list[AddedToken]:
        """The ``added_tokens`` entries in file order, with the ids the loader gives them.

        One in the model vocabulary takes that id; the rest get the next free id in list order, whatever the file says.
        """
        found: dict[str, AddedToken] = {}
        vocab, beyond = self.vocab, len(self.vocab)
        highest = -1
        for entry in self.data.get("added_tokens") or []:
            content = entry["content"]
            if content in vocab:
                index = vocab[content]
            elif content in found:
                index = found[content].id
            else:
                index = highest + 1 if highest >= beyond else beyond
            highest = max(highest, index)
            found[content] = AddedToken(
                index,
                content,
                special=bool(entry.get("special", False)),
                single_word=bool(entry.get("single_word", False)),
                lstrip=bool(entry.get("lstrip", False)),
                rstrip=bool(entry.get("rstrip", False)),
                normalized=bool(entry.get("normalized", not entry.get("special", False))),
            )
        return list(found.values())

    def id_differences(self) -> list[str]:
        """Added tokens whose id in the file is not the one the loader gives, a line each."""
        loaded = {token.content: token.id for token in self.added_tokens}
        return [
            f"{entry['content']!r}: {entry['id']} in the file, {loaded[entry['content']]} when loaded"
            for entry in self.data.get("added_tokens") or []
            if isinstance(entry.get("id"), int) and entry["id"] != loaded[entry["content"]]
        ]

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_shape(self) -> None:
        origin, model = self.origin, self.data.get("model")
        if not isinstance(model, dict) or "vocab" not in model:
            raise TokenizerError(f"{origin} is not a tokenizer.json: it has no model with a vocabulary")
        algorithm, vocab = self.algorithm, model["vocab"]
        if algorithm == "unigram":
            if not isinstance(vocab, list):
                raise TokenizerError(f"{origin}: a Unigram vocabulary must be a list of [piece, score]")
            for index, piece in enumerate(vocab):
                if (
                    not isinstance(piece, list | tuple)
                    or len(piece) != 2
                    or not isinstance(piece[0], str)
                    or not isinstance(piece[1], int | float)
                ):
                    raise TokenizerError(f"{origin}: vocabulary entry {index} is {piece!r}, not [piece, score]")
            unk = model.get("unk_id")
            if unk is not None and not (isinstance(unk, int) and 0 <= unk < len(vocab)):
                raise TokenizerError(f"{origin}: unk_id {unk!r} is not an id of the {len(vocab)} pieces")
        else:
            if not isinstance(vocab, dict):
                raise TokenizerError(f"{origin}: the vocabulary of a {algorithm} model must map tokens to ids")
            for token, index in vocab.items():
                if type(index) is not int or not 0 <= index < 2**31:
                    raise TokenizerError(f"{origin}: token {token!r} has the id {index!r}, which is not one")
        added = self.data.get("added_tokens")
        if added is not None and not isinstance(added, list):
            raise TokenizerError(f"{origin}: added_tokens is not a list")
        for index, entry in enumerate(added or []):
            if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
                raise TokenizerError(f"{origin}: added_tokens entry {index} has no content")

    @cached_property
    def merge_ids(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """BPE only: the merges by id, in order: left, right and product, int64[n] each.

        Raises TokenizerError for a merge whose parts or product the vocabulary lacks, naming both: the native loader
        panics on some of these, past any ``except Exception``, so it must not see them.
        """
        merges, find = self.merges, self.vocab.get
        names = (a + b for a, b in merges)
        if self.affix("continuing_subword_prefix"):
            names = (self._product_of(index) for index in range(len(merges)))
        found = (
            np.array([find(a, -1) for a, _ in merges], dtype=np.int64),
            np.array([find(b, -1) for _, b in merges], dtype=np.int64),
            np.array([find(name, -1) for name in names], dtype=np.int64),
        )
        broken = np.flatnonzero((found[0] < 0) | (found[1] < 0) | (found[2] < 0))
        if len(broken):
            index = int(broken[0])
            left, right = merges[index]
            missing = next(name for name in (left, right, self._product_of(index)) if name not in self.vocab)
            raise TokenizerError(
                f"{self.origin}: merge {index} ({left!r}, {right!r}) needs the token {missing!r}, which the "
                "vocabulary lacks; the file was edited without its merges, make it again from the original"
            )
        return found

    def _product_of(self, index: int) -> str:
        left, right = self.merges[index]
        try:
            return self.product(left, right)
        except UnicodeDecodeError:
            raise TokenizerError(
                f"{self.origin}: merge {index} ({left!r}, {right!r}): the right part is cut inside a character"
            ) from None

    def check_merges(self) -> None:
        """Raise TokenizerError for a BPE merge that names a missing token (see merge_ids)."""
        if self.algorithm == "bpe":
            _ = self.merge_ids
