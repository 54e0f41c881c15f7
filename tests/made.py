"""Small tokenizers of every algorithm, trained here and now, and the text they are trained on. No files, no network."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

Document = dict[str, Any]

SENTENCES = [
    "The lamp in the kitchen was left on all night, and nobody noticed until the morning.",
    "Don't worry: we'll be there by 7:30, won't we? It's 1,234.50 for two tickets.",
    "Die Straße war nach dem Gewitter völlig überflutet; größere Fahrzeuge blieben stecken.",
    "L'été dernier, nous avons mangé des crêpes à la fraise près du château.",
    "Вчера мы долго гуляли по набережной и смотрели на корабли.",
    "Η θάλασσα ήταν ήρεμη και ο ήλιος έδυε πίσω από τα βουνά.",
    "昨日は友達と一緒に山へ行きました。とても楽しかったです。",
    "我们昨天在公园里看见了三只白色的猫。",
    "어제는 비가 와서 집에서 책을 읽었습니다.",
    "कल हमने बाज़ार से ताज़ी सब्ज़ियाँ और फल खरीदे।",
    "ذهبنا أمس إلى السوق واشترينا خبزا طازجا.",
    "def area(radius):\n    return 3.14159 * radius ** 2\n\n\nif __name__ == '__main__':\n    print(area(2))\n",
    "🙂 👩‍👩‍👧 🏳️‍🌈 café cafe\u0301 ﬁne ①②③ ½ ℡ … \u00a0 tab\there",
]


def bare_document(model: Document, added_tokens: Iterable[Document] = (), **parts: Any) -> Document:
    """A tokenizer.json of ``model`` with nothing around it but what ``parts`` say."""
    base: Document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(added_tokens),
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }
    return {**base, **parts}


def bare_bpe(vocab: Iterable[str], merges: Iterable[Any], **settings: Any) -> Document:
    """A BPE model, its tokens numbered as they come."""
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: number for number, token in enumerate(vocab)},
        "merges": [merge if isinstance(merge, str) else list(merge) for merge in merges],
        **settings,
    }


def stdlib_texts(limit_bytes: int = 2_000_000) -> list[str]:
    """Python's own standard library sources, sorted by path: real code that is on every machine."""
    texts, size = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_bytes().decode("utf-8", "replace")
        texts.append(text)
        size += len(text)
        if size >= limit_bytes:
            break
    return texts


def training_texts() -> list[str]:
    return SENTENCES * 20 + stdlib_texts(200_000)


def _train(tokenizer: Tokenizer, trainer: Any) -> Document:
    tokenizer.train_from_iterator(training_texts(), trainer)
    document: Document = json.loads(tokenizer.to_str())
    return document


def _template(bos: str, eos: str, ids: dict[str, int]) -> Any:
    return processors.TemplateProcessing(
        single=f"{bos} $A {eos}", pair=f"{bos} $A {eos} $B {eos}", special_tokens=[(bos, ids[bos]), (eos, ids[eos])]
    )


@cache
def _bpe() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    _train(tokenizer, trainer)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return str(tokenizer.to_str())


@cache
def _metaspace_bpe() -> str:
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    document = _train(trained, trainers.BpeTrainer(vocab_size=700, show_progress=False))
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += [t for t in sorted(document["model"]["vocab"], key=document["model"]["vocab"].get) if t not in names]
    document["model"].update(
        vocab={name: index for index, name in enumerate(names)}, unk_token="<unk>", fuse_unk=True, byte_fallback=True
    )
    document["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return str(tokenizer.to_str())


@cache
def _unigram() -> str:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(vocab_size=700, special_tokens=names, unk_token="<unk>", show_progress=False)
    _train(tokenizer, trainer)
    tokenizer.post_processor = _template("<s>", "</s>", {name: index for index, name in enumerate(names)})
    return str(tokenizer.to_str())


@cache
def _wordpiece() -> str:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    _train(tokenizer, trainers.WordPieceTrainer(vocab_size=800, special_tokens=names, show_progress=False))
    tokenizer.post_processor = _template("[CLS]", "[SEP]", {name: index for index, name in enumerate(names)})
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(pad_token="[PAD]", pad_id=0)
    return str(tokenizer.to_str())


@cache
def _wordlevel() -> str:
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = ["<unk>", "<pad>", "<eos>"]
    _train(tokenizer, trainers.WordLevelTrainer(vocab_size=400, special_tokens=names, show_progress=False))
    return str(tokenizer.to_str())


def tiny(name: str) -> Document:
    """A fresh copy of one small tokenizer.json: bpe, metaspace_bpe, unigram, wordpiece or wordlevel."""
    document: Document = json.loads(globals()[f"_{name}"]())
    return document


TINY = ("bpe", "metaspace_bpe", "unigram", "wordpiece", "wordlevel")
