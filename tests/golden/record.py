"""Records the golden ids with the libraries that define them. Run it as ``python tests/golden/record.py``.

One JSON file a tokenizer: the versions of library and package, and for each input its ids, or, where there are many,
their number and a digest. ``python tests/golden/record.py --train`` makes the small SentencePiece models anew first.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from inputs import ADDED, INPUTS  # noqa: E402
from sources import SOURCES, Source, encoder_of  # noqa: E402

MANY = 400


def condensed(ids: list[int]) -> Any:
    """The ids themselves, or of many their number and sha256."""
    if len(ids) <= MANY:
        return ids
    return {"count": len(ids), "sha256": hashlib.sha256(json.dumps(ids).encode()).hexdigest()}


def recording(source: Source) -> dict[str, Any]:
    encode = encoder_of(source)
    packages = [source.library, *([source.package.replace("_", "-")] if source.package else [])]
    return {
        "tokenizer": source.name,
        "versions": {name: version(name) for name in dict.fromkeys(packages)},
        "inputs": {name: condensed(encode(text)) for name, text in INPUTS.items()},
        "added": {text: condensed(encode(text)) for text in ADDED.get(source.added, [])},
    }


def path_of(source: Source) -> Path:
    return HERE / f"{source.name}.json"


def train() -> None:
    """Three small models on the suite's sentences: Unigram without and with byte fallback, BPE with symbols."""
    import io

    import made
    import sentencepiece

    lines = [line for text in made.SENTENCES * 5 + made.stdlib_texts(300_000) for line in text.split("\n") if line]
    shared: dict[str, Any] = {"minloglevel": 2, "num_threads": 1, "hard_vocab_limit": False}
    settings: dict[str, dict[str, Any]] = {
        "unigram": {"model_type": "unigram", "vocab_size": 900, "character_coverage": 0.99},
        "unigram_bytes": {
            "model_type": "unigram",
            "vocab_size": 1200,
            "byte_fallback": True,
            "control_symbols": ["<ctl>"],
            "user_defined_symbols": ["<x>", "<sep>"],
        },
        "bpe_symbols": {
            "model_type": "bpe",
            "vocab_size": 1200,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "user_defined_symbols": ["<x>", "<sep>"],
        },
    }
    for name, options in settings.items():
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **shared, **options)
        (HERE / f"{name}.model.xz").write_bytes(lzma.compress(model.getvalue(), preset=9))


def main() -> None:
    if "--train" in sys.argv:
        train()
    for source in SOURCES:
        text = json.dumps(recording(source), ensure_ascii=True, separators=(",", ":")).replace('],"', '],\n"')
        path_of(source).write_text(text + "\n", "utf-8")
        print(f"{path_of(source).name}: {path_of(source).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
