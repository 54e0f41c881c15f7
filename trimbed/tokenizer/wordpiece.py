"""WordPiece: unk stays, and so does what keeps unknown words unknown. Knows the greedy match; knows no other model."""

from __future__ import annotations

from trimbed.tokenizer.dependencies import Dependencies
from trimbed.tokenizer.document import TokenizerDocument

__all__ = ["WordPieceBackend"]


class WordPieceBackend:
    """Greedy longest match. A word without [UNK] matches the same kept pieces whatever is dropped.

    A word that was [UNK] failed where no piece begins. With one piece less, the match could take another way past
    that place, and the word would get tokens. That needs a continuing piece that holds, after its first character,
    one that is no continuing piece by itself (``##abc`` without ``##b``). Where the alphabet is complete there is
    none; else the pieces that hold the match on its way are structural.
    """

    algorithm = "wordpiece"

    def __init__(self, document: TokenizerDocument, vocab_size: int) -> None:
        self.document = document
        self.vocab_size = vocab_size

    def structural_ids(self) -> dict[int, str]:
        vocab = self.document.vocab
        found: dict[int, str] = {}
        found.update((vocab[piece], "alphabet") for piece in self.guards())
        unk = vocab.get(self.document.model.get("unk_token") or "[UNK]")
        if unk is not None:
            found[unk] = "unk"
        return found

    def missing_characters(self) -> set[str]:
        """Characters of the vocabulary's continuing pieces that are no continuing piece by themselves."""
        prefix, vocab = self.document.affix("continuing_subword_prefix"), self.document.vocab
        inner = {c for piece in vocab if piece.startswith(prefix) for c in piece[len(prefix) :]}
        return {c for c in inner if prefix + c not in vocab}

    def guards(self) -> set[str]:
        """Pieces whose absence could lead a match over a place where it used to fail. Empty for a complete alphabet.

        ``ways``: continuing pieces that a changed match could take on its way past such a place, at first those that
        cross it. A changed match begins such a piece where the old one was inside a ``guard``: a piece that ends in
        what the way begins with. With every guard kept, the two matches can only part earlier, on a piece that
        overlaps a guard's front, and so on until nothing is added.
        """
        prefix, vocab = self.document.affix("continuing_subword_prefix"), self.document.vocab
        missing = self.missing_characters()
        if not missing:
            return set()
        texts = {piece: piece.removeprefix(prefix) for piece in vocab}
        continuing = [piece for piece in vocab if piece.startswith(prefix) and len(piece) > len(prefix)]
        ways = {p for p in continuing if any(c in missing for c in texts[p][1:])}
        guards: set[str] = set()
        grown = bool(ways)
        while grown:
            fronts = {texts[way][:n] for way in ways for n in range(1, len(texts[way]))}
            new_guards = {p for p, text in texts.items() if any(text[-n:] in fronts for n in range(1, len(text)))}
            overlaps = {texts[g][:n] for g in new_guards for n in range(1, len(texts[g]))}
            new_ways = {p for p in continuing if any(texts[p][-n:] in overlaps for n in range(1, len(texts[p])))}
            grown = not (new_guards <= guards and new_ways <= ways)
            guards |= new_guards
            ways |= new_ways
        return guards

    def dependencies(self) -> Dependencies:
        return Dependencies.none(self.vocab_size)
