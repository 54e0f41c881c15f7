"""What the encoder tests share: texts that provoke, and the comparison with the library."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st
from tokenizers import Tokenizer

from trimbed.counting.encoders import EncoderRecipe, NoRecipe, make_encoder_recipe
from trimbed.counting.kernel._kernel import PieceEncoder

Document = dict[str, Any]

CHARACTERS = list(
    " \t\n\r\u00a0\u3000\u2028\u200b\u200d\ufeff.,;:!?'\"()-_/\\#@$%^&*+=<>|~`[]{}019abdehlmnorstuvxyzADELMRSTZ"
    "éèñüßøÅÀ\u0301\u0300\u0327\u0323\u0345\u0334ſİıŉǰﬁ①½²³Ⅻ℡ªº…—’“€ΑαΩωςάΰДдЁёЙй\u0306א\u05b0ا\u064e\u0651\u0640०१कखत्न\u093c"
    "\u093f\u094d\u0915ऩবা\u09be\u09c7ொ\u0bbeก\u0e33ิ่\u0eb3가각힣\u1100\u1161\u11a8一龥々〇ー・アガ\u3099か。，㍿😀👩💻🏽🇩🇪"
    "\U00010400\U0001d400\U00020000\U0002f800\U000e0001\U0010ffff\ue000\ufffd\ufffe\x00\x01\x7f\x85\xad\u0378\u1e9e\u212a\u212b▁Ġ"
)
WORDS = [
    "'s", "'t", "'re", "'VE", "'m", "'LL", "'d", "'ſ", "don't", "the", " the", "  ", "    ", "\n\n", "\r\n", " \n",
    "12345", "hello", "World", "<unk>", "<s>", "##a", "[UNK]", "<0x0A>", "हिन्दी", "Привет", "한국어", "日本語",
    "cafe\u0301", "▁▁",
]  # fmt: skip

texts = st.lists(
    st.one_of(st.sampled_from(CHARACTERS), st.sampled_from(WORDS), st.characters(exclude_categories=["Cs"])),
    max_size=12,
).map("".join)


def random_texts(count: int, seed: int = 0, alphabet: Sequence[str] = ()) -> list[str]:
    rng = random.Random(seed)
    source = list(alphabet) or CHARACTERS * 2 + WORDS * 3
    return ["".join(rng.choices(source, k=rng.randint(1, 10))) for _ in range(count)]


def document(model: Document, *, normalizer: Document | None = None, pre_tokenizer: Document | None = None) -> Document:
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None, "model": model,
    }  # fmt: skip


def bpe(vocab: Sequence[str], merges: Sequence[tuple[str, str]] = (), **options: Any) -> Document:
    model: Document = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
    }  # fmt: skip
    return model | options | {"vocab": {t: i for i, t in enumerate(vocab)}, "merges": [list(m) for m in merges]}


@cache
def spelling_model() -> str:
    """A model whose ids spell a text out: each character of CHARACTERS and each that stands for a byte, with another id
    where it ends a pre-token. Whatever normalizer and pre-tokenizer do can be read off the ids."""
    from trimbed.counting.encoders.pretokenizers import BYTES

    alphabet = sorted(set(CHARACTERS) | set("".join(WORDS)) | set(BYTES) | set("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    vocab = ["<?>", *alphabet, *(c + "</w>" for c in alphabet)]
    return json.dumps(bpe(vocab, unk_token="<?>", end_of_word_suffix="</w>"))


def spelling(*, normalizer: Document | None = None, pre_tokenizer: Document | None = None) -> Document:
    return document(json.loads(spelling_model()), normalizer=normalizer, pre_tokenizer=pre_tokenizer)


class Pair:
    """The native encoder of a document and the library's tokenizer."""

    def __init__(self, source: Document, initial: Document | None = None) -> None:
        recipe = make_encoder_recipe(source, initial)
        assert isinstance(recipe, EncoderRecipe), recipe
        self.native = PieceEncoder.make(recipe.pack())
        self.libraries = [Tokenizer.from_str(json.dumps(d)) for d in (source, initial or source)]

    def library_ids(self, text: str, *, initial: bool = False) -> list[int] | None:
        try:
            ids: list[int] = self.libraries[initial].encode(text, add_special_tokens=False).ids
        except Exception as error:  # the library raises bare Exceptions, and only for unknown characters here
            assert "unk" in str(error).lower(), error
            return None
        return ids

    def check(self, text: str, *, initial: bool = False) -> bool:
        """Whether the text was encoded natively; AssertionError where the ids differ."""
        native = self.native.encode(text.encode(), initial)
        if native is None:
            return False
        assert native == self.library_ids(text, initial=initial), repr(text)
        return True

    def check_all(self, many: Sequence[str], *, at_least: float = 1.0, initial: bool = False) -> None:
        """Checks all, of which a share of ``at_least`` must have been encoded natively."""
        natively = sum(self.check(text, initial=initial) for text in many)
        assert natively >= at_least * len(many), f"only {natively} of {len(many)} were encoded natively"


def reason(source: Document) -> str:
    recipe = make_encoder_recipe(source)
    assert isinstance(recipe, NoRecipe), "there is a recipe"
    return recipe.reason
