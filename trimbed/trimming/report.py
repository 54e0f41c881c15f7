"""The schema of trim_report.json. Holds results; computes and renders nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from trimbed.trimming.checkpoint import TensorChange

__all__ = [
    "Change",
    "DroppedToken",
    "FileReport",
    "Fragmented",
    "ModelCheck",
    "RowCheck",
    "TensorReport",
    "TextCheck",
    "TrimReport",
    "Verification",
    "Violation",
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Change(_Model):
    """A number before and after."""

    before: int = Field(description="In the source.")
    after: int = Field(description="In the result.")

    @property
    def saved(self) -> int:
        return self.before - self.after


class TensorReport(_Model):
    """One tensor that carries the vocabulary."""

    name: str = Field(description="Its name in the checkpoint.")
    role: str = Field(description="input, output, bias, per_layer or scale.")
    dtype: str = Field(description="As the file names it.")
    before: list[int] = Field(description="Shape in the source.")
    after: list[int] | None = Field(description="Shape in the result; null where it isn't written.")
    reason: str = Field(description="Why it counts as a vocabulary tensor, or why it isn't written.")

    @classmethod
    def of(cls, change: TensorChange) -> TensorReport:
        after = list(change.after) if change.after is not None else None
        return cls(
            name=change.name,
            role=change.role,
            dtype=change.dtype,
            before=list(change.before),
            after=after,
            reason=change.reason,
        )


class FileReport(_Model):
    """What became of one file."""

    name: str = Field(description="Relative to the folder.")
    action: str = Field(description="written, rewritten, brought along or left out.")
    reason: str = Field(description="Why.")
    bytes: int = Field(description="Its size in the result; for a file left out, in the source.")


class DroppedToken(_Model):
    """A token that isn't kept although the corpus has it."""

    id: int = Field(description="In the source.")
    token: str = Field(description="As the vocabulary writes it.")
    count: float = Field(description="How often it was counted, weights applied.")


class Violation(_Model):
    """A text whose ids are all kept and that the trimmed tokenizer encodes otherwise."""

    text: str = Field(description="The text, or its beginning.")
    kind: str = Field(description="ids, ids with special tokens, or decoding.")
    expected: str = Field(description="What should have come out, from the first difference on.")
    found: str = Field(description="What came out, from the first difference on.")


class Fragmented(_Model):
    """A text that costs more tokens than before."""

    text: str = Field(description="Its beginning.")
    before: int = Field(description="Tokens by the source.")
    after: int = Field(description="Tokens by the result.")


class TextCheck(_Model):
    """Both tokenizers on the same texts."""

    texts: int = Field(default=0, description="How many texts were encoded.")
    kept: int = Field(default=0, description="How many of them have only kept ids, and so must encode as before.")
    violations: list[Violation] = Field(default_factory=list, description="The first ones that don't.")
    violation_count: int = Field(default=0, description="How many don't.")
    tokens: Change = Field(default=Change(before=0, after=0), description="Tokens of all texts.")
    unknown: Change = Field(default=Change(before=0, after=0), description="Unknown tokens in all texts.")
    fragmented: list[Fragmented] = Field(default_factory=list, description="The texts that grow most.")

    @property
    def length_ratio(self) -> float:
        """Tokens after / tokens before; 1.0 where there are none."""
        return self.tokens.after / self.tokens.before if self.tokens.before else 1.0


class RowCheck(_Model):
    """Every row of every vocabulary tensor, read again from the result and compared bit for bit."""

    tensors: int = Field(description="How many tensors.")
    rows: int = Field(description="How many rows were equal to their original.")
    differences: list[str] = Field(default_factory=list, description="Tensors and rows that weren't.")


class ModelCheck(_Model):
    """Both models run on the same texts in float32."""

    texts: int = Field(default=0, description="How many texts.")
    tolerance: float = Field(default=0.0, description="The largest difference that passes.")
    hidden_difference: float | None = Field(default=None, description="The largest difference of last hidden states.")
    logit_difference: float | None = Field(
        default=None, description="The largest difference of logits, through the id map."
    )
    skipped: str | None = Field(default=None, description="Why the models weren't run.")
    failures: list[str] = Field(default_factory=list, description="What didn't pass.")


class Verification(_Model):
    """Everything that was proved, or wasn't."""

    ids: str = Field(default="", description="The result loaded again by tokenizers: what was compared.")
    texts: TextCheck = Field(default_factory=TextCheck, description="The preservation invariant.")
    transformers: str = Field(default="not run", description="AutoTokenizer on source and result, where installed.")
    rows: RowCheck | None = Field(default=None, description="The row check; null without weights.")
    model: ModelCheck | None = Field(default=None, description="The models' outputs; null without weights.")
    failures: list[str] = Field(default_factory=list, description="One line for each check that failed.")

    @property
    def passed(self) -> bool:
        return not self.failures


class TrimReport(_Model):
    """What a trim did, from what, why, and how it was proved. No times and no host: equal inputs, equal reports."""

    format_version: int = Field(default=1, description="Of this schema.")
    trimbed: str = Field(description="The version that made it.")
    source: str = Field(description="The tokenizer or checkpoint that was trimmed, as it was named.")
    revision: str | None = Field(default=None, description="Its Hub revision.")
    source_fingerprint: str = Field(description="sha256 of the source's tokenizer, without truncation and padding.")
    result_fingerprint: str = Field(description="The same of the result.")
    selection: dict[str, Any] = Field(default_factory=dict, description="The policy and where the counts came from.")
    selection_digest: str = Field(description="sha256 of the kept ids as little-endian int64.")
    settings: dict[str, Any] = Field(default_factory=dict, description="The settings of the trim.")
    tokens: Change = Field(description="Ids of the tokenizer.")
    rows: Change | None = Field(default=None, description="Rows of the model's embedding table, padding included.")
    parameters: Change | None = Field(default=None, description="Of the model.")
    weight_bytes: Change | None = Field(default=None, description="Of the model's tensors.")
    kept_by_reason: dict[str, int] = Field(default_factory=dict, description="How many ids are kept for which reason.")
    coverage: float | None = Field(
        default=None, description="Share of the counted tokens whose id is kept, weights applied."
    )
    coverage_by_source: dict[str, float] = Field(default_factory=dict, description="The same for each source.")
    dropped_tokens: list[DroppedToken] = Field(default_factory=list, description="The most frequent ones.")
    tensors: list[TensorReport] = Field(default_factory=list, description="Tensors that carry the vocabulary.")
    files: list[FileReport] = Field(default_factory=list, description="Every file of the source and the result.")
    config_changes: list[str] = Field(default_factory=list, description="Each value changed in a configuration.")
    verification: Verification = Field(default_factory=Verification, description="What was proved.")
    warnings: list[str] = Field(default_factory=list, description="What a user should know.")
    reproduce: str = Field(default="", description="A command that makes the same result.")
