"""What tokenizer classes without a tokenizer.json do to a SentencePiece model's ids and to the list of added tokens.

Knows the classes that number pieces otherwise than the ``.model`` does, T5's extra ids and added_tokens.json. A class
it doesn't know is taken to use the model's own ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trimbed.errors import TokenizerError
from trimbed.tokenizer.side_files import SideFiles, read_json

__all__ = ["listed_added_tokens", "refuse_renumbering"]

# They put special tokens before the pieces, or take ids from another file: the .model alone gives wrong ids.
_RENUMBERING = frozenset(
    [
        "XLMRoberta",
        "XLMRobertaXL",
        "MBart",
        "MBart50",
        "Nllb",
        "Camembert",
        "M2M100",
        "XGLM",
        "PLBart",
        "Pegasus",
        "BigBirdPegasus",
        "Marian",
        "Speech2Text",
        "Barthez",
        "SeamlessM4T",
        "Bartpho",
    ]
)
_RENUMBERING_TYPES = frozenset(
    [
        "xlm-roberta",
        "xlm-roberta-xl",
        "mbart",
        "m2m_100",
        "nllb-moe",
        "camembert",
        "xglm",
        "plbart",
        "pegasus",
        "bigbird_pegasus",
        "marian",
        "speech_to_text",
        "seamless_m4t",
    ]
)


def refuse_renumbering(file: Path, side: SideFiles) -> None:
    """Raise TokenizerError where the checkpoint's class gives pieces other ids than the ``.model``."""
    name = _class_name(side)
    kind = side.config.get("model_type")
    if name in _RENUMBERING or (not name and kind in _RENUMBERING_TYPES):
        raise TokenizerError(
            f"{file}: {name + 'Tokenizer' if name else kind} numbers the pieces of this file otherwise than the file "
            "does; use the checkpoint's tokenizer.json (its fast tokenizer can save one)"
        )


def listed_added_tokens(folder: Path, side: SideFiles, vocab: Mapping[str, int], size: int) -> dict[str, Any]:
    """The ``added_tokens_decoder`` entries of tokens that the vocabulary lacks: id as text -> content and flags.

    From tokenizer_config.json, else from added_tokens.json and T5's ``extra_ids``.
    """
    listed = side.tokenizer_config.get("added_tokens_decoder")
    if isinstance(listed, Mapping):
        return {
            str(key): dict(value)
            for key, value in listed.items()
            if isinstance(value, Mapping) and value.get("content") not in vocab
        }
    found: dict[str, Any] = {}
    special = {name for name in side.special_names().values() if name}
    extra = side.tokenizer_config.get("additional_special_tokens")
    special |= {name for name in extra if isinstance(name, str)} if isinstance(extra, list) else set()
    for content, index in read_json(folder / "added_tokens.json").items():
        if content not in vocab and isinstance(index, int):
            found[str(index)] = {"content": content, "special": content in special}
    extra_ids = side.tokenizer_config.get("extra_ids", 100)
    if not found and _class_name(side) == "T5" and isinstance(extra_ids, int) and "<extra_id_0>" not in vocab:
        for place in range(extra_ids):
            found[str(size + place)] = {"content": f"<extra_id_{extra_ids - 1 - place}>", "special": True}
    return found


def _class_name(side: SideFiles) -> str:
    name = str(side.tokenizer_config.get("tokenizer_class") or "")
    return name.removesuffix("Fast").removesuffix("Tokenizer")
