"""Texts that try a plan's cuts, and comparisons of pieces with whole documents. Shared by this folder's tests."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tokenizers import Tokenizer

from trimbed.counting.plan import KernelPlan, PlanExecutor, make_plan

UNK_MODEL = {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
HEAD = r"[^\r\n\p{L}\p{N}]?"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ASCII_PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
NO_HAN = r"&&[^\p{Han}]"

PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": CONTRACTIONS + "|" + HEAD + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "cl100k possessive": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+",
    "letters with marks": CONTRACTIONS + "|" + HEAD + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "o200k": f"{HEAD}[{UPPER}]*[{LOWER}]+{CONTRACTIONS}?|{HEAD}[{UPPER}]+[{LOWER}]*{CONTRACTIONS}?"
    + r"|\p{N}{1,3}"
    + TAIL,
    "tekken": f"{HEAD}[{UPPER}]*[{LOWER}]+|{HEAD}[{UPPER}]+[{LOWER}]*" + r"|\p{N}" + TAIL,
    "han apart": r"[\p{Han}]+|"
    + f"{HEAD}[{UPPER}{NO_HAN}]*[{LOWER}{NO_HAN}]+{CONTRACTIONS}?"
    + f"|{HEAD}[{UPPER}{NO_HAN}]+[{LOWER}{NO_HAN}]*{CONTRACTIONS}?"
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "deepseek": ASCII_PUNCTUATION + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "clip": r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "end of line": r"\s+$|[a-z]+$|\w",
    "lazy": r"a+?b|\s{2,}?|[a-z]+?(?=\s)|x{2}",
    "order": r"ab|a|abc+|(?:ba|c)+d?",
    "lookahead": r"[a-z]+(?=[0-9 ])|[0-9]+(?![a-z0-9])|.(?=\s|$)",
    "intervals": r"\d{2,4}|\d|a{,2}b",
}

SPECIAL = list(
    "\u0300\u0301\u0338\u0327\u0308\u0345\u05b4\u064b\u0e33\u0e48\u094d\u093c\u0958\u093e\u0bbe\u0bc6\u1100\u1161"
    "\u11a8\uac00\uac01\u200d\u200c\u200b\ufe0f\u00a0\u3000\u0085\u2028\u1680\u2121\u2026\ufb01\u017f\u212a\u0130"
    "\u00df\u03a3\u03c2\U0001f600\U0001fae8\U0001f1e6\U0001f1e7\U0001f3fb\ue000\u0378\U000e0001\U0010ffff\x00\x01"
    "\x7f\u00ad\ufeff\ufffd\r\n\t\x0b\x0c \u0664\u00bd\u00b2\u2163\u4e00\u3042\u30a2\u30fc\uff41\uff11\uff1f\u2581"
    "\u0120\u0344\u0f73\u0f81\U0001d15e\u226e\u2260=<>'\u2019\uff07\u0600\u0d4e\U00030000\u0149\u01c4\u1e9e\ufb06"
    "\u2474\u33c2\u00a8\u037e"
)
WORDS = [
    *[
        "'s",
        "'S",
        "'\u017f",
        "'re",
        "'LL",
        "'ve",
        "'m",
        "'D",
        " ",
        "  ",
        "   ",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        " \n",
        "\n ",
    ],
    *["a", "the", " the", "Hello", "123", "1234567", ",", "...", " ...", "//", "==", "_", "中文", "日本語", "한국어"],
    *[
        "हिन्दी",
        "עברית",
        "العربية",
        "Привет",
        "é",
        "e\u0301",
        "🙂",
        "👩‍👩‍👧",
        "🇩🇪",
        "``",
        "''",
        "-",
        "- ",
        "$5",
        "½",
        "<",
        "|",
    ],
    *["<unk>", "[UNK]", "▁", "▁a", "don't", "CamelCase", "HTMLParser", "x1y2", "ab", "abc", "ba", "xx"],
]


def document(*, normalizer: Any = None, pre_tokenizer: Any = None, model: Any = None, added: Sequence[Any] = ()) -> Any:
    """A tokenizer.json document of the given parts."""
    return {
        "version": "1.0",
        "added_tokens": list(added),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "model": model or UNK_MODEL,
    }


def split(pattern: str, behavior: str = "Isolated", *, invert: bool = False, regex: bool = True) -> dict[str, Any]:
    kind = "Regex" if regex else "String"
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(kind: str, parts: Sequence[Any]) -> dict[str, Any]:
    return {"type": "Sequence", kind: list(parts)}


def planned(of: Any) -> tuple[KernelPlan, PlanExecutor, Tokenizer]:
    """The plan of a document, its executor, and the tokenizer for whole documents."""
    plan = make_plan(of)
    assert isinstance(plan, KernelPlan), plan
    return plan, PlanExecutor(plan), Tokenizer.from_str(json.dumps({**of, "truncation": None, "padding": None}))


def representatives(plan: KernelPlan) -> list[str]:
    """A few characters of each class: its first, its last, and some between, more of them from the lower planes."""
    result = []
    for number in range(plan.class_count):
        members = np.flatnonzero(plan.classes == number)
        members = members[(members < 0xD800) | (members > 0xDFFF)]
        low = members[members < 0x3000]
        for some in (members, low):
            if len(some):
                places = np.unique(np.linspace(0, len(some) - 1, 6).astype(int))
                result.extend(chr(value) for value in some[places].tolist())
    return result


def texts(plan: KernelPlan, *, words: Iterable[str] = ()) -> st.SearchStrategy[str]:
    """Documents made of class representatives, awkward characters, words, added tokens and parts of them."""
    added = [match.content for match in plan.added[:20] + plan.added[-20:]]
    parts = [st.sampled_from(representatives(plan)), st.sampled_from(SPECIAL), st.sampled_from([*WORDS, *words])]
    if added:
        parts += [st.sampled_from([*added, *(a[:-1] for a in added if len(a) > 1), *(f" {a} " for a in added)])]
    return st.lists(st.one_of(parts), max_size=14).map("".join)


def counts(tokenizer: Tokenizer, documents: Sequence[str]) -> Counter[int]:
    """The reference's counts of whole documents."""
    total: Counter[int] = Counter()
    for encoding in tokenizer.encode_batch_fast(documents, add_special_tokens=False):
        total.update(encoding.ids)
    return total


def pre_tokens(tokenizer: Any, text: str) -> list[str]:
    """What the model would be given of ``text`` (no added tokens)."""
    if tokenizer.normalizer is not None:
        text = tokenizer.normalizer.normalize_str(text)
    parts = [(text, None)] if tokenizer.pre_tokenizer is None else tokenizer.pre_tokenizer.pre_tokenize_str(text)
    return [part for part, _ in parts if part]


def piecewise(executor: PlanExecutor, text: str) -> list[str]:
    """What the model would be given of the pieces of ``text``."""
    kinds = {True: executor.first, False: executor.inner}
    return [part for piece, first, _ in executor.pieces(text) for part in pre_tokens(kinds[first], piece)]
