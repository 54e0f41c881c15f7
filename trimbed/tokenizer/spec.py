"""A tokenizer as everything downstream sees it: one document, its tokens, what must stay, what depends on what.

Knows how the parts of this package fit together; the work is theirs. Loads nothing of a model's weights.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import TokenizerError
from trimbed.tokenizer.backend import Backend, backend_for, byte_fallback_names, components, is_byte_level
from trimbed.tokenizer.dependencies import Dependencies
from trimbed.tokenizer.document import AddedToken, TokenizerDocument
from trimbed.tokenizer.families import Family, family_of
from trimbed.tokenizer.structural import structural_ids
from trimbed.tokenizer.surface import byte_level_surface, byte_of_name, script_of

if TYPE_CHECKING:
    import tokenizers

    from trimbed.counting.counter import TokenizerSource

__all__ = ["TokenizerSpec"]


class TokenizerSpec:
    """A tokenizer.json document and what a checkpoint's other files say about it.

    ``document``: the tokenizer.json. ``source``: what was asked for. ``revision``: the Hub revision, None for local
    files. ``folder``: the checkpoint's folder, None where there is none. ``decided_by``: the file that the document
    comes from. ``notes``: contradictions between files, and what was passed over, a sentence each.
    """

    def __init__(
        self,
        document: TokenizerDocument,
        *,
        source: str = "document",
        revision: str | None = None,
        folder: Path | None = None,
        decided_by: str = "tokenizer.json",
        side: Any = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        from trimbed.tokenizer.side_files import SideFiles

        self.document = document
        self.source = source
        self.revision = revision
        self.folder = folder
        self.decided_by = decided_by
        self.side: SideFiles = side if side is not None else SideFiles()
        self.notes = notes
        document.check_merges()
        if differences := document.id_differences():
            raise TokenizerError(
                f"{document.origin}: the loader gives added tokens other ids than the file says:\n  "
                + "\n  ".join(differences[:20])
                + ("" if len(differences) <= 20 else f"\n  and {len(differences) - 20} more")
                + "\nThe model was trained with one of the two; correct the file, we can't choose."
            )

    @classmethod
    def load(cls, source: Any, *, revision: str | None = None) -> TokenizerSpec:
        """The tokenizer of a checkpoint.

        ``source``: a folder, a file, a Hub id, JSON text, a ``tokenizers.Tokenizer`` or a ``transformers`` tokenizer.
        ``revision`` is for Hub ids. Raises TokenizerError where the files can't be read, or not faithfully;
        UsageError for a revision beside local files.

        >>> TokenizerSpec.load("checkpoints/small").algorithm
        'bpe'
        """
        from trimbed.tokenizer.resolve import resolve

        return resolve(source, revision=revision)

    @classmethod
    def from_document(
        cls, document: dict[str, Any] | str | TokenizerDocument, *, source: str = "document"
    ) -> TokenizerSpec:
        """A spec of a tokenizer.json alone, given as mapping or text."""
        if not isinstance(document, TokenizerDocument):
            document = TokenizerDocument.parse(document)
        return cls(document, source=source)

    def __repr__(self) -> str:
        return f"TokenizerSpec({self.source!r}, {self.algorithm}, {self.vocab_size} ids, from {self.decided_by})"

    # -- identity ---------------------------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """sha256 of what the tokenizer does (see TokenizerDocument.fingerprint)."""
        return self.document.fingerprint

    @property
    def algorithm(self) -> str:
        """bpe, unigram, wordpiece or wordlevel."""
        return self.document.algorithm

    # -- tokens -----------------------------------------------------------------------------------------------------

    @cached_property
    def vocab_size(self) -> int:
        """The highest id + 1: the rows a model's table needs, holes included."""
        ids = (*self.document.vocab.values(), *(token.id for token in self.added_tokens))
        return max(max(ids, default=-1) + 1, len(self.document.scores) if self.algorithm == "unigram" else 0)

    @cached_property
    def tokens(self) -> list[str | None]:
        """By id, the token's name; None for a hole. Of two names with one id the first in the file."""
        names: list[str | None] = [None] * self.vocab_size
        if self.algorithm == "unigram":
            names[: len(self.document.scores)] = [piece[0] for piece in self.document.model["vocab"]]
        for token, index in self.document.vocab.items():
            if names[index] is None:
                names[index] = token
        for added in self.added_tokens:
            if names[added.id] is None:
                names[added.id] = added.content
        return names

    @property
    def added_tokens(self) -> list[AddedToken]:
        return self.document.added_tokens

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {**{token.content: token.id for token in self.added_tokens}, **self.document.vocab}

    def token_to_id(self, token: str) -> int | None:
        return self._ids.get(token)

    @cached_property
    def _special_ids(self) -> dict[str, int | None]:
        names = self.side.special_names()
        found = {role: self._ids.get(name) if name is not None else None for role, name in names.items()}
        if found.get("unk") is None:
            found["unk"] = self._model_unk
        return found

    @property
    def _model_unk(self) -> int | None:
        model = self.document.model
        if self.algorithm == "unigram":
            unk = model.get("unk_id")
            return None if unk is None else int(unk)
        default = {"wordpiece": "[UNK]", "wordlevel": "<unk>"}.get(self.algorithm)
        name = model.get("unk_token") or default
        return None if name is None else self.document.vocab.get(name)

    @property
    def bos_id(self) -> int | None:
        """The id of the token that the checkpoint's files name as bos_token; None where they name none."""
        return self._special_ids.get("bos")

    @property
    def eos_id(self) -> int | None:
        return self._special_ids.get("eos")

    @property
    def pad_id(self) -> int | None:
        return self._special_ids.get("pad")

    @property
    def unk_id(self) -> int | None:
        """As named by the checkpoint's files, else the model's own unk."""
        return self._special_ids.get("unk")

    @cached_property
    def special_ids(self) -> dict[str, int]:
        """Role (bos, eos, pad, unk, sep, cls, mask) -> id, where the files name one that the vocabulary has."""
        return {role: index for role, index in self._special_ids.items() if index is not None}

    @cached_property
    def byte_level(self) -> bool:
        """Whether tokens are written in characters that stand for bytes."""
        return is_byte_level(self.document) or any(
            part.get("type") == "ByteLevel" for part in components(self.document.data.get("decoder"))
        )

    def surfaces(self) -> list[str | None]:
        """By id, the text a token stands for: bytes decoded, ``##`` and ``▁`` undone.

        None for holes, for tokens that are part of a character, and for byte-fallback tokens beyond ASCII.
        Added tokens stand for themselves.
        """
        return self._surfaces

    @cached_property
    def _surfaces(self) -> list[str | None]:
        added = {token.id: token.content for token in self.added_tokens}
        prefix = self.document.affix("continuing_subword_prefix")
        suffix = self.document.affix("end_of_word_suffix")
        metaspace = self._space_mark
        bytes_named = set(byte_fallback_names(self.document)) if self.document.model.get("byte_fallback") else set()

        def surface(index: int, token: str | None) -> str | None:
            if token is None:
                return None
            if index in added:
                return added[index]
            if token in bytes_named:
                byte = byte_of_name(token)
                return chr(byte) if byte is not None and byte < 0x80 else None
            if suffix and token.endswith(suffix):
                token = token[: -len(suffix)]
            if prefix and token.startswith(prefix):
                token = token[len(prefix) :]
            if self.byte_level:
                return byte_level_surface(token)
            return token.replace(metaspace, " ") if metaspace else token

        return [surface(index, token) for index, token in enumerate(self.tokens)]

    @cached_property
    def _space_mark(self) -> str:
        """The character that stands for a space in tokens, "" where spaces stand for themselves or never get there."""
        for part in components(self.document.data.get("pre_tokenizer")):
            if part.get("type") == "Metaspace":
                return str(part.get("replacement", "▁"))
        for part in components(self.document.data.get("normalizer")):
            if part.get("type") == "Replace" and part.get("pattern", {}).get("String") == " ":
                return str(part.get("content", ""))
        return ""

    def kinds(self) -> list[str]:
        """By id: normal, byte, unk, special, added or hole."""
        return self._kinds

    @cached_property
    def _kinds(self) -> list[str]:
        kinds = ["hole" if token is None else "normal" for token in self.tokens]
        for index, reason in self.backend.structural_ids().items():
            if reason == "byte":
                kinds[index] = "byte"
        for token in self.added_tokens:
            kinds[token.id] = "special" if token.special else "added"
        if self._model_unk is not None:
            kinds[self._model_unk] = "unk"
        return kinds

    def scripts(self) -> list[str | None]:
        """By id, the Unicode script of the token's surface (Latn, Hani, …; Zyyy for shared characters, or mixed)."""
        return self._scripts

    @cached_property
    def _scripts(self) -> list[str | None]:
        return [script_of(surface) for surface in self._surfaces]

    # -- encoding ---------------------------------------------------------------------------------------------------

    @cached_property
    def tokenizer(self) -> tokenizers.Tokenizer:
        """The reference library's tokenizer, truncation and padding off."""
        import tokenizers

        try:
            loaded = tokenizers.Tokenizer.from_str(self.document.text())
        except (KeyboardInterrupt, SystemExit, MemoryError):
            raise
        except BaseException as error:  # a panic of the native loader is no Exception
            raise TokenizerError(f"{self.document.origin} can't be loaded: {error}") from None
        loaded.no_truncation()
        loaded.no_padding()
        return loaded

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """The ids of ``text``.

        Without ``add_special_tokens`` nothing is added. With it the post-processor is applied, or, where the document
        has none, the checkpoint's ``add_bos_token`` and ``add_eos_token``.
        """
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        if add_special_tokens and not self._adds_specials:
            if self.side.add_bos_token and self.bos_id is not None:
                ids = [self.bos_id, *ids]
            if self.side.add_eos_token and self.eos_id is not None:
                ids = [*ids, self.eos_id]
        return ids

    @cached_property
    def _adds_specials(self) -> bool:
        """Whether the post-processor itself adds tokens (byte-level ones only mend offsets)."""
        parts = components(self.document.data.get("post_processor"))
        return any(part.get("type") not in ("ByteLevel", "Sequence") for part in parts)

    def decode(self, ids: list[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ``ids``. ``special`` tokens are left out on request; they are shown by default."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    # -- what must stay ---------------------------------------------------------------------------------------------

    @cached_property
    def backend(self) -> Backend:
        return backend_for(self.document, self.vocab_size)

    def dependencies(self) -> Dependencies:
        """What each token is built from (see Backend.dependencies)."""
        return self._dependencies

    @cached_property
    def _dependencies(self) -> Dependencies:
        return self.backend.dependencies()

    def structural_ids(self) -> dict[int, str]:
        """Ids that no policy may drop, each with one reason.

        The backend's, every added token, what the post-processor and padding name, the roles of the checkpoint's
        files, the ids in its configs, and the family's markers that the vocabulary has.
        """
        return structural_ids(self)

    @cached_property
    def family(self) -> Family | None:
        """The family descriptor of the checkpoint's architecture, None where it is unknown."""
        return family_of(self.side.config, gguf_architecture=self.side.architecture)

    def chat_templates(self) -> dict[str, str]:
        """Name -> Jinja source, from wherever the checkpoint keeps them; ``default`` is the one used without a name."""
        return self.side.chat_templates()

    def for_counting(self) -> TokenizerSource:
        """What the counter needs, in plain values."""
        import pyarrow as pa

        from trimbed.counting.counter import TokenizerSource

        vocabulary = pa.table(
            {
                "token_id": pa.array(np.arange(self.vocab_size, dtype=np.int32)),
                "token": pa.array([token or "" for token in self.tokens], pa.string()),
                "surface": pa.array([_storable(s) for s in self.surfaces()], pa.string()),
                "kind": pa.array(self.kinds(), pa.string()),
                "script": pa.array(self.scripts(), pa.string()),
            }
        )
        return TokenizerSource(
            document=self.document.text(),
            fingerprint=self.fingerprint,
            source=self.source,
            revision=self.revision,
            vocab_size=self.vocab_size,
            vocabulary=vocabulary,
        )


def _storable(surface: str | None) -> str | None:
    """Lone surrogates can't be stored as UTF-8; such a surface is no text."""
    if surface is None or not any("\ud800" <= c <= "\udfff" for c in surface):
        return surface
    return None
