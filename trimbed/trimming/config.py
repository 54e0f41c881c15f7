"""The settings of a trim: how the result is written and proved. Knows nothing of what is kept."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["TensorRole", "TrimConfig"]

TensorRole = Literal["input", "output", "bias", "per_layer", "none"]


class TrimConfig(BaseModel):
    """Everything ``trim`` can be told."""

    model_config = ConfigDict(extra="forbid")

    overwrite: bool = Field(
        default=False, description="Replace an existing output folder, once the new one is written and verified."
    )
    pad_to_multiple_of: int | None = Field(
        default=None, ge=1, le=65536, description="Round the model's vocabulary rows up to a multiple of this number."
    )
    pad_fill: Literal["zero", "mean"] = Field(
        default="zero",
        description=(
            "What rows added by pad_to_multiple_of hold: zeros (whose logit is 0), or the mean of the kept rows (whose "
            "logit is the mean of the others, so it never wins)."
        ),
    )
    tensors: dict[str, TensorRole] = Field(
        default_factory=dict,
        description=(
            "Tensor name -> input, output, bias, per_layer or none, where the checkpoint's own names don't decide "
            "which tensors carry the vocabulary."
        ),
    )
    rest: Literal["copy", "hardlink", "symlink"] = Field(
        default="copy", description="How files that don't change come along."
    )
    weights: bool = Field(default=True, description="Trim the checkpoint too; false writes the tokenizer's files only.")
    verify: bool = Field(default=True, description="Prove the result before it is put in place.")
    verify_texts: int = Field(
        default=1000, ge=0, description="At most so many sample texts are encoded by both tokenizers."
    )
    verify_model: Literal["auto", "always", "never"] = Field(
        default="auto",
        description=(
            "Run both models on sample texts: auto does so where torch and transformers are installed and the "
            "checkpoint is below verify_model_limit."
        ),
    )
    verify_model_limit: int = Field(
        default=1_000_000_000, ge=0, description="The checkpoint size in bytes up to which auto runs the models."
    )
    verify_model_texts: int = Field(default=8, ge=1, description="How many texts the models are run on.")
    tolerance: float | None = Field(
        default=None,
        gt=0,
        description="The largest difference of hidden states and logits; by the weights' dtype if not set.",
    )
    html: bool = Field(default=True, description="Write trim_report.html too.")
    model_card: bool = Field(default=True, description="Add a section on the trim to README.md.")
    block_bytes: int = Field(
        default=32 * 1024 * 1024,
        ge=1,
        description="How much of a tensor is held in memory at once. Never changes the output.",
    )
