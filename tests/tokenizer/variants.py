"""Tokenizers made to be awkward, from the suite's small ones: several merges a token, missing characters, affixes."""

from __future__ import annotations

import random
from typing import Any

import made

Document = dict[str, Any]


def many_rules(name: str = "metaspace_bpe") -> Document:
    """A BPE that lists every way to split each token, shortest left part first, as some conversions do."""
    document = made.tiny(name)
    vocab, model = document["model"]["vocab"], document["model"]
    built = {"".join(pair) for pair in model["merges"]}
    model["merges"] = [
        [token[:cut], token[cut:]]
        for token in sorted(built, key=vocab.__getitem__)
        for cut in range(1, len(token))
        if token[:cut] in vocab and token[cut:] in vocab
    ]
    return document


def shuffled_rules() -> Document:
    """The same with the order of merges disturbed, so that products may come before their parts."""
    document = many_rules()
    rng = random.Random(7)
    merges = document["model"]["merges"]
    keys = [index + rng.uniform(0, 300) for index in range(len(merges))]
    document["model"]["merges"] = [merge for _, merge in sorted(zip(keys, merges, strict=True))]
    return document


def without_characters(missing: str) -> Document:
    """A WordPiece vocabulary in which some characters are no continuing pieces by themselves."""
    document = made.tiny("wordpiece")
    vocab = document["model"]["vocab"]
    left = [token for token in sorted(vocab, key=vocab.__getitem__) if not (token[:2] == "##" and token[2:] in missing)]
    document["model"]["vocab"] = {token: index for index, token in enumerate(left)}
    for entry in document["added_tokens"]:
        entry["id"] = document["model"]["vocab"][entry["content"]]
    return document


def suffixed() -> Document:
    """A BPE with </w> at the end of words, trained as CLIP's is."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False
    )
    return made._train(tokenizer, trainer)


def prefixed() -> Document:
    """A BPE with ## before what continues a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>"], continuing_subword_prefix="##", show_progress=False
    )
    return made._train(tokenizer, trainer)


def whole_words() -> Document:
    """A byte-level BPE with ignore_merges, and words that no merges build."""
    document = made.tiny("bpe")
    model = document["model"]
    model["ignore_merges"] = True
    orphans = ["Ġhippopotamus", "Ġnobody", "Ġnoticed", "reloaded"]
    added = {entry["content"] for entry in document["added_tokens"]}
    vocab = {
        token: index for token, index in model["vocab"].items() if token not in added or index < len(model["vocab"])
    }
    for word in orphans:
        vocab.setdefault(word, len(vocab))
    model["vocab"] = vocab
    following = len(vocab)
    for entry in document["added_tokens"]:
        if entry["content"] in vocab:
            entry["id"] = vocab[entry["content"]]
        else:
            entry["id"], following = following, following + 1
    return document


def converted(name: str) -> Document:
    """One of the golden corpus's SentencePiece models, converted."""
    from sources import HERE, unpack

    from trimbed.tokenizer.spec import TokenizerSpec

    return TokenizerSpec.load(unpack(HERE / f"{name}.model.xz")).document.data


VARIANTS = {
    "converted unigram with bytes": lambda: converted("unigram_bytes"),
    "converted bpe with symbols": lambda: converted("bpe_symbols"),
    "many rules": many_rules,
    "many byte-level rules": lambda: many_rules("bpe"),
    "shuffled rules": shuffled_rules,
    "incomplete alphabet": lambda: without_characters("aeioun"),
    "suffixed": suffixed,
    "prefixed": prefixed,
    "whole words": whole_words,
    **{name: (lambda name=name: made.tiny(name)) for name in made.TINY},
}
