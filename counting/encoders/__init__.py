"""Recipes for the native piece encoders: translated from a tokenizer document, in plain arrays. The public names."""

from __future__ import annotations

from trimbed.counting.encoders.recipe import EncoderRecipe, NoRecipe
from trimbed.counting.encoders.translate import make_encoder_recipe

__all__ = ["EncoderRecipe", "NoRecipe", "make_encoder_recipe"]
