"""What a user may say about what to keep, one policy or many, and the check that it makes sense. Knows no counts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from trimbed.errors import UsageError

__all__ = ["DEFAULT_CAP_ORDER", "CapOrder", "SelectionConfig", "SweepConfig", "describe_policy", "expand"]

CapOrder = Literal["frequency", "flow"]
DEFAULT_CAP_ORDER: CapOrder = "flow"

Share = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
TokenId = Annotated[int, Field(ge=0)]

_CUTS = ("coverage", "top_k", "min_count", "coverage_per_source")
_REQUESTS = (
    "keep_presets",
    "keep_tokens",
    "keep_token_ids",
    "keep_token_files",
    "keep_patterns",
    "keep_texts",
    "keep_text_files",
)


class SelectionConfig(BaseModel):
    """One policy: union(structural, requested, corpus), then what those are built from, then the cap, then rounding.

    Structural tokens stay whatever is said here. ``coverage``, ``top_k`` and ``min_count`` cut the ranking of the
    corpus's ordinary (not structural) tokens; of several the strictest decides.
    """

    model_config = ConfigDict(extra="forbid")

    coverage: Share | None = Field(
        default=None,
        description="Keep the most frequent tokens until they make up this share of the ordinary tokens counted.",
    )
    top_k: Positive | None = Field(default=None, description="Keep at most this many tokens because of the corpus.")
    min_count: Positive | None = Field(default=None, description="Keep tokens that were counted at least this often.")
    coverage_per_source: Share | dict[str, Share] | None = Field(
        default=None,
        description="Keep at least this share of every source's ordinary tokens: a number, or one by source name "
        "(the name default speaks for the rest). A floor, added to what the other cuts keep.",
    )
    source_weights: dict[str, Annotated[float, Field(ge=0)]] = Field(
        default_factory=dict, description="Weights by source name, applied to the stored counts on reading."
    )
    keep_presets: list[str] = Field(
        default_factory=list, description="Named sets of tokens, such as digits or script:Latin; see trimbed presets."
    )
    keep_tokens: list[str] = Field(
        default_factory=list, description="Tokens as the vocabulary writes them, such as Ġthe, ▁the or ##ing."
    )
    keep_token_ids: list[TokenId] = Field(default_factory=list, description="Tokens by their id.")
    keep_token_files: list[str] = Field(
        default_factory=list,
        description="Files with a token a line; lines that begin with # are comments, \\# begins a token with #.",
    )
    keep_patterns: list[str] = Field(
        default_factory=list, description="Regular expressions, searched in the text that a token stands for."
    )
    keep_texts: list[str] = Field(
        default_factory=list,
        description="Texts that must encode as before: the original tokenizer's ids for them stay.",
    )
    keep_text_files: list[str] = Field(default_factory=list, description="Files whose whole text is kept like that.")
    keep_chat_template: bool = Field(default=True, description="Keep what the chat template's own words need.")
    max_vocab_size: Positive | None = Field(
        default=None,
        description="At most this many tokens: the least frequent that nothing else is built from go first.",
    )
    cap_order: CapOrder = Field(
        default=DEFAULT_CAP_ORDER,
        description="frequency: the cap goes by the counts as they are. flow: a dropped token's count is passed on to "
        "the tokens its text falls into, before the next one is chosen.",
    )
    cap_spares_requested: bool = Field(
        default=False, description="Let the cap take requested tokens only when nothing else is left to take."
    )
    pad_vocab_to_multiple_of: Positive | None = Field(
        default=None, description="Round the vocabulary up to a multiple of this with the next most frequent tokens."
    )

    @field_validator("keep_patterns")
    @classmethod
    def _patterns_compile(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return patterns

    @model_validator(mode="after")
    def _cap_and_rounding_agree(self) -> Self:
        cap, multiple = self.max_vocab_size, self.pad_vocab_to_multiple_of
        if cap is not None and multiple is not None and cap < multiple:
            raise ValueError(
                f"max_vocab_size {cap} is smaller than pad_vocab_to_multiple_of {multiple}, so no size meets both"
            )
        return self

    @property
    def cuts_corpus(self) -> bool:
        """Whether anything says how much of a corpus's ranking to keep. A cap alone does: all that was seen, capped."""
        return self.max_vocab_size is not None or any(getattr(self, name) is not None for name in _CUTS)

    @property
    def requests(self) -> bool:
        """Whether any token is asked for by name, pattern or text (the chat template doesn't count)."""
        return any(getattr(self, name) for name in _REQUESTS)

    def check(self, *, has_counts: bool) -> None:
        """Raise UsageError where the policy can't mean anything: nothing to select by, or counts without a cut."""
        if has_counts and not self.cuts_corpus and not self.requests:
            raise UsageError(
                "the counts have no cut: give selection.coverage, top_k, min_count, coverage_per_source or "
                "max_vocab_size"
            )
        if not has_counts:
            needing = [name for name in _CUTS if getattr(self, name) is not None]
            if needing:
                raise UsageError(f"selection.{needing[0]} needs counts; give a counts cache (--cache)")
            if not self.requests:
                raise UsageError(
                    "nothing to select by: give a counts cache with a cut (such as selection.coverage), or say what to "
                    "keep (selection.keep_presets, keep_tokens, keep_texts, …)"
                )


class SweepConfig(BaseModel):
    """Many policies: every combination of the lists, then the listed policies, each laid over ``selection``."""

    model_config = ConfigDict(extra="forbid")

    coverage: list[Share | None] = Field(default_factory=list, description="Coverages to try; null for none.")
    top_k: list[Positive | None] = Field(default_factory=list, description="Sizes of top_k to try.")
    min_count: list[Positive | None] = Field(default_factory=list, description="Minimal counts to try.")
    coverage_per_source: list[Share | dict[str, Share] | None] = Field(
        default_factory=list, description="Floors per source to try."
    )
    max_vocab_size: list[Positive | None] = Field(default_factory=list, description="Caps to try.")
    cap_order: list[CapOrder] = Field(default_factory=list, description="Orders of dropping under a cap to try.")
    keep_presets: list[list[str]] = Field(default_factory=list, description="Lists of presets to try.")
    keep_chat_template: list[bool] = Field(
        default_factory=list, description="With the chat template, without, or both."
    )
    pad_vocab_to_multiple_of: list[Positive | None] = Field(default_factory=list, description="Roundings to try.")
    policies: list[dict[str, Any]] = Field(
        default_factory=list, description="Policies by their settings, each laid over selection."
    )
    exact_cost: bool | None = Field(
        default=None,
        description="Whether to work out what the corpus would cost in tokens, from the cache's pieces. Left out: for "
        "up to 50 policies where the cache has the pieces.",
    )
    best: str | None = Field(
        default=None,
        description='A bound such as "length_ratio<=1.01": search for the smallest vocabulary that meets it.',
    )

    @property
    def grid(self) -> dict[str, list[Any]]:
        """The lists that were given, by setting."""
        names = [name for name in type(self).model_fields if name not in ("policies", "exact_cost", "best")]
        return {name: getattr(self, name) for name in names if getattr(self, name)}


def expand(base: SelectionConfig, sweep: SweepConfig) -> list[SelectionConfig]:
    """The policies of a sweep, each once, in order: the grid's last list varies fastest.

    Raises UsageError naming the policy where one makes no sense, or where the sweep lists nothing.
    """
    found: dict[str, SelectionConfig] = {}
    for settings in _settings(sweep):
        try:
            policy = SelectionConfig.model_validate({**base.model_dump(), **settings})
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"])
            message = problem["msg"].removeprefix("Value error, ")
            raise UsageError(f"sweep policy {dict(settings)!r}: {where + ': ' if where else ''}{message}") from None
        found.setdefault(policy.model_dump_json(), policy)
    if not found:
        raise UsageError("the sweep lists no policy: give lists for coverage, top_k, min_count or max_vocab_size")
    return list(found.values())


def _settings(sweep: SweepConfig) -> Iterator[Mapping[str, Any]]:
    grid = sweep.grid
    if grid:
        for values in itertools.product(*grid.values()):
            yield dict(zip(grid, values, strict=True))
    yield from sweep.policies


def describe_policy(policy: SelectionConfig) -> str:
    """The settings that differ from the defaults: ``coverage=0.999 max_vocab_size=32000``."""
    defaults = SelectionConfig()
    parts = []
    for name in type(policy).model_fields:
        value = getattr(policy, name)
        if value == getattr(defaults, name):
            continue
        if isinstance(value, dict):
            value = ",".join(f"{key}:{item:g}" for key, item in sorted(value.items()))
        elif isinstance(value, list):
            value = ",".join(map(str, value)) if sum(len(str(item)) for item in value) < 60 else f"[{len(value)}]"
        elif isinstance(value, float):
            value = f"{value:.10g}"
        parts.append(f"{name}={value}")
    return " ".join(parts) or "structural tokens only"
