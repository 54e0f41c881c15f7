"""What the text of a dropped token falls into, by algorithm: an estimate at model level that the flow order goes by.

Knows the four models' own ways of segmenting one token's string; knows no corpus and no policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from trimbed.selection.cap import Fall
from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["fall_for"]


def fall_for(spec: TokenizerSpec) -> Fall | None:
    """How tokens of ``spec`` fall apart; None where their dependencies say it (BPE)."""
    if spec.algorithm == "bpe":
        return None
    if spec.algorithm == "unigram":
        return _unigram(spec)
    if spec.algorithm == "wordpiece":
        return _wordpiece(spec)
    unk = spec.unk_id
    return lambda token, alive: () if unk is None or token == unk else (unk,)


def _wordpiece(spec: TokenizerSpec) -> Fall:
    vocab, names = spec.document.vocab, spec.tokens
    prefix = spec.document.affix("continuing_subword_prefix")
    unk = spec.unk_id

    def fall(token: int, alive: Sequence[bool]) -> Sequence[int]:
        text = names[token] or ""
        found: list[int] = []
        inside = bool(prefix) and text.startswith(prefix) and len(text) > len(prefix)
        text = text[len(prefix) :] if inside else text
        at = 0
        while at < len(text):
            for end in range(len(text), at, -1):
                index = vocab.get((prefix if at or inside else "") + text[at:end])
                if index is not None and index != token and alive[index]:
                    found.append(index)
                    at = end
                    break
            else:
                return () if unk is None or unk == token else (unk,)
        return found

    return fall


def _unigram(spec: TokenizerSpec) -> Fall:
    names, scores, unk = spec.tokens, spec.document.scores, spec.unk_id
    ids: dict[str, int] = {}
    for index, piece in enumerate(names[: len(scores)]):
        if piece is not None:
            ids.setdefault(piece, index)
    longest = max(map(len, ids), default=0)
    price = min(scores, default=0.0) - 10.0  # the library's score of an unknown character
    bytes_of: dict[int, int] = {}
    if spec.document.model.get("byte_fallback"):
        bytes_of = {byte: ids[name] for byte in range(256) if (name := f"<0x{byte:02X}>") in ids}

    def fall(token: int, alive: Sequence[bool]) -> Sequence[int]:
        text = names[token] or ""
        best: list[float] = [0.0] + [float("-inf")] * len(text)
        back: list[tuple[int, int]] = [(0, -1)] * (len(text) + 1)
        for start in range(len(text)):
            if best[start] + price > best[start + 1]:
                best[start + 1], back[start + 1] = best[start] + price, (start, -1)
            for end in range(start + 1, min(len(text), start + longest) + 1):
                index = ids.get(text[start:end])
                if index is None or index == token or not alive[index]:
                    continue
                if best[start] + scores[index] > best[end]:
                    best[end], back[end] = best[start] + scores[index], (start, index)
        found: list[int] = []
        at = len(text)
        while at:
            start, index = back[at]
            if index >= 0:
                found.append(index)
            else:
                encoded = [bytes_of.get(byte) for byte in text[start:at].encode("utf-8", "surrogatepass")]
                if bytes_of and None not in encoded:
                    found += [number for number in encoded if number is not None]
                elif unk is not None and unk != token:
                    found.append(unk)
            at = start
        return found

    return fall
