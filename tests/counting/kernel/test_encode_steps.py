"""Native normalizers and pre-tokenizers do what the library's do, read off the ids of a model that spells texts out."""

from __future__ import annotations

from typing import Any

import pytest
from encode_checks import CHARACTERS, Document, Pair, bpe, document, random_texts, reason, spelling, texts
from hypothesis import given, settings
from hypothesis import strategies as st


def regex(pattern: str, behavior: str = "Isolated", invert: bool = False) -> Document:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def string(pattern: str, behavior: str = "Isolated", invert: bool = False) -> Document:
    return {"type": "Split", "pattern": {"String": pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix: bool = False, use_regex: bool = True) -> Document:
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def metaspace(scheme: str, split: bool = True) -> Document:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def sequence(*steps: Document) -> Document:
    return {"type": "Sequence", "pretokenizers": list(steps)}


CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TIKTOKEN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s*[\r\n]|\s+(?!\S)|\s"
)
DEEPSEEK = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
KIMI = (
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*"
    r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
STARCODER = r"\d{1}"

PRE_TOKENIZERS: dict[str, Document | None] = {
    "none": None,
    "gpt2": byte_level(),
    "gpt2 with a space": byte_level(prefix=True),
    "bytes": byte_level(use_regex=False),
    "cl100k": sequence(regex(CL100K), byte_level(use_regex=False)),
    "o200k": sequence(regex(O200K), byte_level(use_regex=False)),
    "cl100k removed, inverted": regex(CL100K, "Removed", True),
    "tiktoken's possessive quantifiers": regex(TIKTOKEN),
    "deepseek": sequence(*map(regex, DEEPSEEK), byte_level(use_regex=False)),
    "kimi": regex(KIMI),
    "starcoder": sequence(regex(STARCODER), byte_level()),
    "alternatives in order": regex(r"a|ab|abc|[a-d]+?d|(?:th|t)he?"),
    "lazy": regex(r"[a-z]+?(?=[aeiou])|\p{N}{2,3}?|x??y"),
    "atomic": regex(r"(?>[a-z]*)r|(?>l|ll)o"),
    "groups repeated": regex(r"(?:[a-z]\s?){2,3}|(?:é|è)+n|(?<name>d[ao])*t"),
    "look-behind": regex(r"(?<=\s)\S+|(?<!\w)\."),
    "merged with previous": regex(r"[\s!?.]", "MergedWithPrevious"),
    "merged with next": regex(r"[\s!?.]", "MergedWithNext"),
    "contiguous": regex(r"[\s!?.]", "Contiguous"),
    "removed": regex(r"\s+", "Removed"),
    "contiguous, inverted": regex(r"\w", "Contiguous", True),
    "previous, inverted": regex(r"\w+", "MergedWithPrevious", True),
    "next, inverted": regex(r"\w+", "MergedWithNext", True),
    "string": string("  ", "MergedWithPrevious"),
    "string of regex signs": string("'", "Removed"),
    "space to the left": string(" ", "MergedWithPrevious"),
    "metaspace always": metaspace("always"),
    "metaspace never": metaspace("never"),
    "metaspace first": metaspace("first"),
    "metaspace whole": metaspace("always", split=False),
    "metaspace behind spaces": sequence({"type": "WhitespaceSplit"}, metaspace("always")),
    "metaspace first behind spaces": sequence({"type": "WhitespaceSplit"}, metaspace("first")),
    "whitespace": {"type": "Whitespace"},
    "whitespace split": {"type": "WhitespaceSplit"},
    "bert": {"type": "BertPreTokenizer"},
    "punctuation": {"type": "Punctuation", "behavior": "MergedWithPrevious"},
    "digits": {"type": "Digits", "individual_digits": False},
    "each digit": {"type": "Digits", "individual_digits": True},
    "delimiter": {"type": "CharDelimiterSplit", "delimiter": "a"},
    "fixed length": {"type": "FixedLength", "length": 3},
    "several": sequence(
        {"type": "Whitespace"}, {"type": "Digits", "individual_digits": True}, string("e", "MergedWithNext")
    ),
    "bytes, then more": sequence(byte_level(), {"type": "Punctuation", "behavior": "Isolated"}),
}


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_pre_tokens_are_the_library_s(name: str) -> None:
    pair = Pair(spelling(pre_tokenizer=PRE_TOKENIZERS[name]))
    pair.check_all(CHARACTERS + random_texts(1500, seed=4))


def test_a_byte_level_model_reads_bytes_as_the_library_reads_what_stands_for_them() -> None:
    from trimbed.counting.encoders.pretokenizers import BYTES

    for pre_tokenizer in (byte_level(), byte_level(prefix=True), sequence(regex(CL100K), byte_level(use_regex=False))):
        Pair(document(bpe(BYTES), pre_tokenizer=pre_tokenizer)).check_all(random_texts(1000, seed=5))


def normalizers(*steps: Document) -> Document:
    return {"type": "Sequence", "normalizers": list(steps)}


def bert(clean: bool = True, chinese: bool = True, strip: bool | None = None, lower: bool = True) -> Document:
    return {
        "type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": strip,
        "lowercase": lower,
    }  # fmt: skip


def replace(kind: str, pattern: str, content: str) -> Document:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


NORMALIZERS: dict[str, Document] = {
    **{
        name: {"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")
    },
    "bert": bert(),
    "bert cased": bert(lower=False),
    "bert lower with accents": bert(strip=False),
    "bert cased without accents": bert(strip=True, lower=False),
    "bert as it came": bert(False, False, False, False),
    "nfd, lower, without accents": normalizers({"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}),
    "lower, then nfkc": normalizers({"type": "Lowercase"}, {"type": "NFKC"}),
    "nfc twice and lower": normalizers({"type": "NFC"}, {"type": "Lowercase"}, {"type": "NFKC"}),
    "llama": normalizers({"type": "Prepend", "prepend": "▁"}, replace("String", " ", "▁")),
    "strip left": {"type": "Strip", "strip_left": True, "strip_right": False},
    "strip right": {"type": "Strip", "strip_left": False, "strip_right": True},
    "strip both": {"type": "Strip", "strip_left": True, "strip_right": True},
    "replace a word": replace("String", "he", "She"),
    "replace by nothing": replace("String", "e", ""),
    "replace by regex": normalizers(replace("Regex", r" {2,}", "▁"), replace("Regex", r"\s", " ")),
    "replace, then compose": normalizers(replace("String", "a", "e\u0301"), {"type": "NFC"}),
    "nothing": normalizers(),
}


@pytest.mark.parametrize("name", NORMALIZERS)
def test_normal_forms_are_the_library_s(name: str) -> None:
    pair = Pair(spelling(normalizer=NORMALIZERS[name]))
    pair.check_all(CHARACTERS + random_texts(2500, seed=6))


_pairs: dict[str, Pair] = {}
_MARKS = list(
    "aeAEcqΑαиक\u0915বা\u09c7\u09be\u09d7ொ\u0b92\u0bd7\u1100\u1161\u11a8가각\u3046か\u3099\u309a\u0f71\u0f72\u0f74ﬁ①Åé"
)
_MARKS += list("\u0301\u0300\u0327\u0323\u0345\u0334\u0338\u093c\u094d\u05b0\u05bc\u0651\u064b\u1dce\u302a")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_MARKS), min_size=1, max_size=9).map("".join), texts)
@pytest.mark.parametrize("name", ["NFC", "NFD", "NFKC", "NFKD", "bert"])
def test_marks_are_ordered_and_composed_as_the_library_does(name: str, marks: str, text: str) -> None:
    from trimbed.counting.encoders.pretokenizers import BYTES

    if name not in _pairs:
        _pairs[name] = Pair(
            document(bpe(BYTES), normalizer=NORMALIZERS[name], pre_tokenizer=byte_level(use_regex=False))
        )
    assert _pairs[name].check(marks)
    assert _pairs[name].check(text + marks)


@pytest.mark.parametrize("name", ["NFC", "NFKD", "Lowercase", "bert", "Nmt"])
def test_every_code_point_alone_is_normalized_as_the_library_does(name: str) -> None:
    from trimbed.counting.encoders.pretokenizers import BYTES

    pair = Pair(document(bpe(BYTES), normalizer=NORMALIZERS[name], pre_tokenizer=byte_level(use_regex=False)))
    points = [*range(0x30000), *range(0xE0000, 0xE0200), 0xFFFFF, 0x10FFFF, *range(0x50000, 0x110000, 7919)]
    text = "x".join(chr(c) for c in points if not 0xD800 <= c < 0xE000)
    pair.check_all([text[i : i + 400] for i in range(0, len(text), 400)])


def test_initial_pieces_may_have_steps_of_their_own() -> None:
    inner = spelling(normalizer=replace("String", " ", "▁"))
    pair = Pair(inner, spelling(normalizer=NORMALIZERS["llama"]))
    many = random_texts(500, seed=7)
    pair.check_all(many)
    pair.check_all(many, initial=True)


def test_pieces_that_hold_an_added_token_are_left_to_the_library() -> None:
    token: dict[str, Any] = {"single_word": False, "lstrip": False, "rstrip": False, "special": False}
    source = spelling(normalizer={"type": "Lowercase"})
    source["added_tokens"] = [
        {"id": 9000, "content": "Raw", "normalized": False} | token,
        {"id": 9001, "content": "Low", "normalized": True} | token,
        {"id": 9002, "content": "#", "normalized": False} | token,
    ]
    pair = Pair(source)
    for text in ("Raw", "LOW", "slow", "a#", "#a"):
        assert not pair.check(text), text
    for text in ("raw", "lo w", "Ra", "lo"):
        assert pair.check(text), text


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (regex(r"a*"), "empty text"),
        (regex(r"\bfoo"), r"\b"),
        (regex(r"(a)\1"), r"\1"),
        (regex(r"^a"), "'^'"),
        (regex(r"(?<=ab)c"), "look-behind"),
        (regex(r"(?i:stra(ss)e)"), "one character can match"),
        (regex(r"(?i:é)"), "beyond ASCII"),
        (regex(r"a{2}?"), "Oniguruma"),
        ({"type": "UnicodeScripts"}, "UnicodeScripts"),
        (sequence(byte_level(prefix=True), metaspace("first")), "first"),
    ],
)
def test_what_the_native_pre_tokenizer_does_not_cover_has_a_reason(part: Document, why: str) -> None:
    assert why in reason(spelling(pre_tokenizer=part))


def test_a_match_that_takes_too_many_steps_is_left_to_the_library() -> None:
    pair = Pair(spelling(pre_tokenizer=regex(r"(?:a|aa)+b")))
    assert pair.check("aaaab")
    assert pair.native.encode(b"a" * 60) is None
