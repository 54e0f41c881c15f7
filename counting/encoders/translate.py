"""From a tokenizer document to the recipe of a native piece encoder, or the reason why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trimbed.counting.encoders import probe
from trimbed.counting.encoders.models import takes_bytes, translate_model
from trimbed.counting.encoders.normalizers import translate_normalizer
from trimbed.counting.encoders.pretokenizers import PreTokenizerSteps, translate_pre_tokenizer
from trimbed.counting.encoders.recipe import EncoderRecipe, NoRecipe, RecipeBuilder
from trimbed.counting.encoders.regex import UnsupportedPattern

__all__ = ["make_encoder_recipe"]

Document = Mapping[str, Any] | str


def make_encoder_recipe(document: Document, initial: Document | None = None) -> EncoderRecipe | NoRecipe:
    """The recipe of an encoder that gives, for each piece, the ids that the library gives for it with ``document``
    (a tokenizer.json as text or as a dict; special tokens not added, truncation and padding off).

    ``initial``: the document for initial pieces, where these are encoded otherwise than others. Its model must be the
    same. Returns NoRecipe with the reason where some part of the document has no native counterpart.
    """
    data = [_data(document)]
    if initial is not None and initial is not document and initial != document:
        data.append(_data(initial))
    if any(d["model"] != data[0]["model"] for d in data):
        return NoRecipe("the model for initial pieces isn't the model for others")
    builder = RecipeBuilder()
    try:
        endings = [_pipeline(builder, f"pipeline.{i}", d) for i, d in enumerate(data)]
        if len({ending.ends_in_bytes for ending in endings}) > 1:
            return NoRecipe("only one of the two kinds of pieces is byte-level")
        model = data[0]["model"]
        translate_model(builder, model, raw_bytes=endings[0].ends_in_bytes, document=data[0])
        builder.explanation.append(f"model: {model['type']}{', on bytes' if endings[0].ends_in_bytes else ''}")
    except UnsupportedPattern as error:
        return NoRecipe(f"no native encoder for {error}")
    builder.number("pipelines", len(data))
    return builder.finish()


def _data(document: Document) -> Mapping[str, Any]:
    if isinstance(document, str):
        data: Mapping[str, Any] = json.loads(document)
        return data
    return document


def _pipeline(builder: RecipeBuilder, name: str, data: Mapping[str, Any]) -> PreTokenizerSteps:
    normalizer = data.get("normalizer")
    steps = translate_normalizer(builder, normalizer)
    builder.steps(f"{name}.normalizer", steps.steps)
    builder.number(f"{name}.ascii_same", int(steps.ascii_same))
    pre_tokenizer = data.get("pre_tokenizer")
    bytes_at_end = takes_bytes(data["model"])
    cuts = translate_pre_tokenizer(builder, f"{name}.pre_tokenizer", pre_tokenizer, bytes_at_end=bytes_at_end)
    builder.number(f"{name}.keep_start", int(cuts.asks_start and not steps.keeps_start))
    _added_tokens(builder, name, data, normalizer)
    for kind, part in (("normalizer", normalizer), ("pre-tokenizer", pre_tokenizer)):
        builder.explanation.append(f"{kind}: {'none' if part is None else part['type']}")
    return cuts


def _added_tokens(
    builder: RecipeBuilder, name: str, data: Mapping[str, Any], normalizer: Mapping[str, Any] | None
) -> None:
    """What a piece must not hold if it is to be encoded natively: before the normalizer, and behind it."""
    raw, normalized = set(), set()
    for token in data.get("added_tokens") or []:
        if not token["content"]:
            continue
        if not token.get("normalized"):
            raw.add(token["content"])
        elif normalizer is None:
            normalized.add(token["content"])
        else:
            text = probe.library_part("normalizer", normalizer).normalize_str(token["content"])
            if not text:
                raise UnsupportedPattern(f"the added token {token['content']!r}, of which normalizing leaves nothing")
            normalized.add(text)
    builder.strings(f"{name}.raw_added", (text.encode() for text in sorted(raw)))
    builder.strings(f"{name}.added", (text.encode() for text in sorted(normalized)))
