"""Pre-tokenizers by name: regular expressions of known byte-level vocabularies, as GGUF and rank files mean them.

Knows strings only. A name that isn't here is refused by those who ask: a guessed pattern means other ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "BY_GGUF_NAME",
    "GPT2",
    "LLAMA3",
    "QWEN2",
    "QWEN35",
    "TEKKEN",
    "Pattern",
    "byte_level_bpe",
    "pattern_of_vocabulary",
]


@dataclass(frozen=True)
class Pattern:
    """How text is split before byte-level BPE. ``steps``: regexes applied one after the other, matches isolated.
    ``normalizer``: "" or "NFC". ``ignore_merges``: whether a whole piece is looked up in the vocabulary first."""

    steps: tuple[str, ...]
    normalizer: str = ""
    ignore_merges: bool = False
    digits: bool = False  # each digit alone before the steps
    gpt2: bool = False  # the library's built-in GPT-2 regex instead of steps

    def normalizer_json(self) -> dict[str, Any] | None:
        return {"type": self.normalizer} if self.normalizer else None

    def pre_tokenizer_json(self, *, add_prefix_space: bool = False) -> dict[str, Any]:
        """The ``pre_tokenizer`` of a tokenizer.json."""
        parts: list[dict[str, Any]] = [{"type": "Digits", "individual_digits": True}] if self.digits else []
        parts += [
            {"type": "Split", "pattern": {"Regex": step}, "behavior": "Isolated", "invert": False}
            for step in self.steps
        ]
        parts.append(
            {"type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": True, "use_regex": self.gpt2}
        )
        return parts[0] if len(parts) == 1 else {"type": "Sequence", "pretokenizers": parts}


def byte_level_bpe(
    pattern: Pattern,
    vocab: Mapping[str, int],
    merges: Sequence[Sequence[str]],
    *,
    added_tokens: Sequence[Mapping[str, Any]] = (),
    ignore_merges: bool | None = None,
    add_prefix_space: bool = False,
    affix: str | None = None,
) -> dict[str, Any]:
    """A tokenizer.json of a byte-level BPE that splits by ``pattern``.

    ``ignore_merges``: the pattern's, where None. ``affix``: how the absence of a prefix and suffix is written (files
    that ``transformers`` converts say "", others null).
    """
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(added_tokens),
        "normalizer": pattern.normalizer_json(),
        "pre_tokenizer": pattern.pre_tokenizer_json(add_prefix_space=add_prefix_space),
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": affix,
            "end_of_word_suffix": affix,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pattern.ignore_merges if ignore_merges is None else ignore_merges,
            "vocab": vocab,
            "merges": merges,
        },
    }


_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = Pattern((), gpt2=True)
LLAMA3 = Pattern(
    (rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}",),
    ignore_merges=True,
)
CL100K = Pattern(LLAMA3.steps)
QWEN2 = Pattern(
    (rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}",), "NFC"
)
QWEN35 = Pattern(
    (
        rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_TAIL}",
    ),
    "NFC",
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = Pattern(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_TAIL}",
    ),
    ignore_merges=True,
)
_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = Pattern(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_ENDINGS}"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_TAIL}",
    )
)
_PUNCTUATED = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
    rf"|{_TAIL}"
)
DEEPSEEK_V3 = Pattern((r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+", _PUNCTUATED))
_KIMI_HAN = r"[\p{Han}]+"
_KIMI_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_KIMI_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
KIMI = Pattern(
    (
        rf"{_KIMI_HAN}|[^\r\n\p{{L}}\p{{N}}]?{_KIMI_UPPER}*{_KIMI_LOWER}+{_ENDINGS}"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_KIMI_UPPER}+{_KIMI_LOWER}*{_ENDINGS}|\p{{N}}{{1,3}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}",
    ),
    ignore_merges=True,
)

# GGUF ``tokenizer.ggml.pre`` -> the pattern of the tokenizer that the name stands for.
BY_GGUF_NAME: dict[str, Pattern] = {
    "gpt-2": GPT2,
    "gpt2": GPT2,
    "mpt": GPT2,
    "olmo": GPT2,
    "jais": GPT2,
    "phi-2": GPT2,
    "roberta-bpe": GPT2,
    "exaone4": GPT2,
    "starcoder": Pattern((), digits=True, gpt2=True),
    "refact": Pattern((), digits=True, gpt2=True),
    "command-r": Pattern((), "NFC", digits=True, gpt2=True),
    "smollm": Pattern((), digits=True, gpt2=True),
    "codeshell": Pattern((), digits=True, gpt2=True),
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "dbrx": CL100K,
    "smaug-bpe": LLAMA3,
    "chatglm-bpe": Pattern(CL100K.steps, ignore_merges=True),
    "glm4": Pattern(CL100K.steps, ignore_merges=True),
    "qwen2": QWEN2,
    "stablelm2": Pattern(QWEN2.steps),
    "deepseek-r1-qwen": Pattern(QWEN2.steps, "NFC"),
    "megrez": QWEN2,
    "qwen35": QWEN35,
    "deepseek-v3": DEEPSEEK_V3,
    "hunyuan-dense": DEEPSEEK_V3,
    "tekken": TEKKEN,
    "gpt-4o": O200K,
    "llama4": O200K,
    "kimi-k2": KIMI,
}


def pattern_of_vocabulary(size: int, sample: set[bytes]) -> tuple[str, Pattern, tuple[tuple[str, int], ...]] | None:
    """The pattern and special tokens of a tiktoken rank file that carries neither, by its number of ranks.

    Returns a name, the pattern and (special token, id) pairs, or None for a vocabulary nobody described. ``sample``
    are some of its tokens, to tell two vocabularies of one size apart.
    """
    if size == 151_643 and b"<|endoftext|>" not in sample:
        names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{n}|>" for n in range(205))]
        return "Qwen", QWEN2, tuple((name, size + n) for n, name in enumerate(names))
    if size == 248_044:
        names = [
            "<|endoftext|>",
            "<|im_start|>",
            "<|im_end|>",
            "<|object_ref_start|>",
            "<|object_ref_end|>",
            "<|box_start|>",
            "<|box_end|>",
            "<|quad_start|>",
            "<|quad_end|>",
            "<|vision_start|>",
            "<|vision_end|>",
            "<|vision_pad|>",
            "<|image_pad|>",
            "<|video_pad|>",
            "<tool_call>",
            "</tool_call>",
            "<|fim_prefix|>",
            "<|fim_middle|>",
            "<|fim_suffix|>",
            "<|fim_pad|>",
            "<|repo_name|>",
            "<|file_sep|>",
            "<tool_response>",
            "</tool_response>",
            "<think>",
            "</think>",
            "<|audio_start|>",
            "<|audio_end|>",
            "<tts_pad>",
            "<tts_text_bos>",
            "<tts_text_eod>",
            "<tts_text_bos_single>",
            "<|audio_pad|>",
        ]
        return "Qwen 3.5", QWEN35, tuple((name, size + n) for n, name in enumerate(names))
    if size == 128_000:
        names = [
            "<|begin_of_text|>",
            "<|end_of_text|>",
            "<|reserved_special_token_0|>",
            "<|reserved_special_token_1|>",
            "<|finetune_right_pad_id|>",
            "<|reserved_special_token_2|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eom_id|>",
            "<|eot_id|>",
            "<|python_tag|>",
            *(f"<|reserved_special_token_{n}|>" for n in range(3, 248)),
        ]
        return "Llama 3", LLAMA3, tuple((name, size + n) for n, name in enumerate(names))
    if size == 100_256:
        names = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>"]
        return (
            "cl100k",
            Pattern(CL100K.steps, ignore_merges=True),
            tuple(zip(names, (100_257, 100_258, 100_259, 100_260, 100_276), strict=True)),
        )
    if size == 199_998:
        return (
            "o200k",
            Pattern(O200K.steps, ignore_merges=True),
            (("<|endoftext|>", 199_999), ("<|endofprompt|>", 200_018)),
        )
    if size == 50_256:
        return "gpt-2", Pattern((), gpt2=True, ignore_merges=True), (("<|endoftext|>", 50_256),)
    return None
