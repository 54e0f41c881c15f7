"""What was asked for by name, id, file, pattern, preset, text or chat template, as ids with the reasons.

Knows the tokenizer and the files of a policy; knows no counts, and nothing of what a cap may take back.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trimbed.errors import SelectionError, UsageError
from trimbed.selection.chat import template_literals
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.presets import PresetContext, resolve_preset
from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["MissingRequest", "Requests", "near_misses", "read_token_file", "resolve_requests"]


@dataclass(frozen=True)
class MissingRequest:
    """A token that was asked for and isn't in the vocabulary, where it was asked for, and what it may have meant."""

    token: str
    asked_by: str
    near: tuple[str, ...] = ()

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(map(repr, self.near))}?" if self.near else ""
        return f"{self.asked_by} asks for {self.token!r}, which the vocabulary lacks{hint}"


@dataclass
class Requests:
    """``reasons``: id -> who asked for it, each once. ``files``: path -> sha256 of what was read. ``notes``: hints."""

    reasons: dict[int, list[str]] = field(default_factory=dict)
    missing: list[MissingRequest] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, ids: Iterable[int], reason: str) -> None:
        for index in ids:
            reasons = self.reasons.setdefault(int(index), [])
            if reason not in reasons:
                reasons.append(reason)

    def mask(self, vocab_size: int) -> np.ndarray:
        """bool[vocab_size]"""
        found = np.zeros(vocab_size, dtype=bool)
        found[list(self.reasons)] = True
        return found


def resolve_requests(spec: TokenizerSpec, policy: SelectionConfig, *, context: PresetContext | None = None) -> Requests:
    """The ids that ``policy`` asks for.

    Tokens are looked up as the vocabulary writes them, else in the normalizer's form; texts are encoded by the
    original tokenizer without special tokens. Strings the vocabulary lacks are listed with near misses, not errors.
    Raises UsageError for an unknown preset or an unreadable file, SelectionError for an id that isn't there.
    """
    found = Requests()
    context = context or PresetContext(spec)
    for name in policy.keep_presets:
        found.add(np.flatnonzero(resolve_preset(name, context)).tolist(), f"preset:{name}")
    _add_tokens(spec, policy.keep_tokens, "keep_tokens", found)
    for path in policy.keep_token_files:
        text = _read(path, "keep_token_files", found)
        _add_tokens(spec, read_token_file(text), f"file:{path}", found)
        for line in text.splitlines():
            if line.startswith("#") and spec.token_to_id(line) is not None:
                found.notes.append(
                    f"{path}: the line {line!r} is a comment, but also a token; to keep it, write \\{line}"
                )
    for index in policy.keep_token_ids:
        if index >= spec.vocab_size or spec.tokens[index] is None:
            raise SelectionError(
                f"keep_token_ids asks for {index}, but {spec.source} has no such token; "
                f"its ids go up to {spec.vocab_size - 1}"
            )
        found.add([index], "keep_token_ids")
    for pattern in policy.keep_patterns:
        search = re.compile(pattern).search
        surfaces = spec.surfaces()
        matched = (i for i, text in enumerate(surfaces) if text is not None and search(text))
        found.add(matched, f"pattern:{pattern}")
    for number, text in enumerate(policy.keep_texts):
        found.add(spec.encode(text), f"text:{number}")
    for path in policy.keep_text_files:
        found.add(spec.encode(_read(path, "keep_text_files", found)), f"file:{path}")
    if policy.keep_chat_template:
        for name, template in sorted(spec.chat_templates().items()):
            for text in template_literals(template):
                found.add(spec.encode(text), f"chat_template:{name}")
    return found


def read_token_file(text: str) -> Iterator[str]:
    """The tokens of a keep file: one a line, as the vocabulary writes them; nothing is stripped but the line's end.

    Empty lines and lines that begin with ``#`` are passed over. A token that begins with ``#`` is written ``\\#``
    (``\\##ing``), one that begins with a backslash ``\\\\``.
    """
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        if not line or line.startswith("#"):
            continue
        yield line[1:] if line.startswith(("\\#", "\\\\")) else line


def near_misses(token: str, spec: TokenizerSpec, *, limit: int = 3) -> tuple[str, ...]:
    """Tokens that ``token`` may have meant: with or without a word mark, in another case, or nearly so."""
    bare = token.removeprefix("##").lstrip("Ġ▁ ")
    marks = ("", "Ġ", "▁", "##")
    found: list[str] = []
    if bare:
        for cased in dict.fromkeys((bare, bare.lower(), bare.capitalize(), bare.upper())):
            found += [mark + cased for mark in marks]
            found += [f"{cased}</w>"]
    found = [name for name in dict.fromkeys(found) if name != token and spec.token_to_id(name) is not None]
    if len(found) < limit and bare:
        close = [
            name
            for name in spec.tokens
            if name is not None and name != token and abs(len(name) - len(token)) <= 1 and name not in found
        ]
        # The exact measure is slow on a whole vocabulary; first those that share most characters.
        wanted = set(token)
        close = [name for name in close if 2 * len(wanted & set(name)) >= len(wanted | set(name))]
        found += difflib.get_close_matches(token, close[:5000], n=limit - len(found), cutoff=0.75)
    return tuple(found[:limit])


_MISSES_EXPLAINED = 100  # beyond these a wrong file was given, and looking for near misses is a waste


def _add_tokens(spec: TokenizerSpec, tokens: Iterable[str], asked_by: str, found: Requests) -> None:
    normalized: dict[str, int] | None = None
    for token in tokens:
        index = spec.token_to_id(token)
        if index is None:
            if normalized is None:
                normalized = {_normal_form(spec, t.content): t.id for t in reversed(spec.added_tokens) if t.normalized}
            form = _normal_form(spec, token)
            index = spec.token_to_id(form)
            index = normalized.get(form) if index is None else index
        if index is not None:
            found.add([index], asked_by)
        else:
            near = near_misses(token, spec) if len(found.missing) < _MISSES_EXPLAINED else ()
            found.missing.append(MissingRequest(token, asked_by, near))


def _normal_form(spec: TokenizerSpec, token: str) -> str:
    """``token`` as the normalizer leaves it; a word mark that the normalizer puts before every text is taken off."""
    normalizer = spec.tokenizer.normalizer
    if normalizer is None:
        return token
    form = str(normalizer.normalize_str(token))
    return form[1:] if form[:1] == "▁" and not token.startswith(("▁", " ")) else form


def _read(path: str, setting: str, found: Requests) -> str:
    file = Path(path).expanduser()
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"selection.{setting}: there is no file {path}") from None
    except IsADirectoryError:
        raise UsageError(f"selection.{setting}: {path} is a directory; give a file") from None
    except OSError as error:
        raise UsageError(f"selection.{setting}: {path} can't be read: {error}") from None
    found.files[path] = hashlib.sha256(data).hexdigest()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"selection.{setting}: {path} isn't UTF-8 (byte {error.start})") from None
