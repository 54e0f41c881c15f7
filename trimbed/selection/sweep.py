"""A table with a row for every policy: what it keeps, what that covers and saves, and what the corpus would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import SelectionError, UsageError
from trimbed.selection.answers import Answers
from trimbed.selection.decide import Reason
from trimbed.selection.frame import Frame
from trimbed.selection.policy import SelectionConfig, SweepConfig, describe_policy, expand
from trimbed.selection.presets import PresetContext
from trimbed.selection.requests import Requests, resolve_requests
from trimbed.selection.rows import TokenRows, token_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from trimbed.selection.cost import PieceCosts
    from trimbed.storage.cache import CountsCache
    from trimbed.storage.counts import CorpusCounts
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["EXACT_BY_DEFAULT", "Sweep", "run_sweep", "sweep"]

EXACT_BY_DEFAULT = 50  # up to so many policies get exact costs without being asked for
_REQUEST_FIELDS = {name for name in SelectionConfig.model_fields if name.startswith("keep_")}


def sweep(
    spec: TokenizerSpec,
    counts: CorpusCounts | None,
    policies: Sequence[SelectionConfig] | SweepConfig,
    *,
    base: SelectionConfig | None = None,
    costs: PieceCosts | None = None,
) -> pa.Table:
    """A row for each policy, in their order.

    ``policies``: a list, or a SweepConfig laid over ``base``. ``costs``: the corpus's pieces, for exact costs (see
    ``selection.cost.PieceCosts``); None leaves those columns out.

    Columns: policy; kept; structural, requested, corpus, dependency, rounding (they add up to kept);
    vocabulary_reduction; coverage and coverage:SOURCE (share of the tokens counted, weighted overall, whose id is
    kept); with a config.json embedding_parameters and bytes_saved; with costs those of ``PieceCosts.columns``;
    problem, where a policy can't be met (its numbers are null).

    Raises UsageError for a sweep that lists nothing or a policy that means nothing.
    """
    if isinstance(policies, SweepConfig):
        policies = expand(base or SelectionConfig(), policies)
    return Sweep(spec, counts).table(policies, costs=costs)


def run_sweep(
    spec: TokenizerSpec,
    counts: CorpusCounts | None,
    cache: CountsCache | None,
    base: SelectionConfig,
    config: SweepConfig,
) -> tuple[pa.Table, list[str]]:
    """All that a configured sweep asks for: the table, and notes for the person watching.

    With ``config.best`` the last row is the smallest vocabulary that meets the bound, after those that are listed.
    """
    import pyarrow as pa

    from trimbed.selection.best import find_best, parse_bound
    from trimbed.selection.inputs import piece_costs

    bound = parse_bound(config.best) if config.best else None
    listed = expand(base, config) if config.grid or config.policies or bound is None else []
    wanted = config.exact_cost
    if bound is not None and bound.measure.partition(":")[0] != "coverage" and wanted is None:
        wanted = True
    costs, why = piece_costs(cache, spec, counts, wanted=wanted, policies=len(listed))
    notes = [why] if why else []
    made = Sweep(spec, counts)
    tables = [made.table(listed, costs=costs)] if listed else []
    if bound is not None:
        best = find_best(made, base, bound, costs=costs)
        notes.append(f"smallest with {config.best}: {best['policy']}, {best['kept']:,} tokens")
        tables.append(pa.Table.from_pylist([best]))
    for requests in made.asked():
        notes += [str(miss) for miss in requests.missing] + requests.notes
    return pa.concat_tables(tables, promote_options="permissive"), list(dict.fromkeys(notes))


class Sweep:
    """Policies for one tokenizer and its counts, asked one by one or as a table."""

    def __init__(self, spec: TokenizerSpec, counts: CorpusCounts | None, *, rows: TokenRows | None = None) -> None:
        self.spec = spec
        self.counts = counts
        self.rows = rows if rows is not None else token_rows(spec.folder, spec.side.config)
        self._context = PresetContext(spec)
        self._requests: dict[str, tuple[Requests, np.ndarray]] = {}
        self._answers: dict[str, Answers] = {}

    def reasons(self, policy: SelectionConfig) -> np.ndarray:
        """uint8[vocab_size] of Reason. Raises SelectionError for a policy that can't be met."""
        policy.check(has_counts=self.counts is not None)
        return self._answers_for(policy).reasons(policy, self._requested(policy))

    def table(self, policies: Sequence[SelectionConfig], *, costs: PieceCosts | None = None) -> pa.Table:
        """See ``sweep``."""
        import pyarrow as pa

        if not policies:
            raise UsageError("the sweep lists no policy")
        for policy in policies:
            policy.check(has_counts=self.counts is not None)
        by_weights: dict[str, list[tuple[SelectionConfig, np.ndarray]]] = {}
        for policy in policies:
            by_weights.setdefault(_weights_key(policy), []).append((policy, self._requested(policy)))
        for questions in by_weights.values():
            self._answers_for(questions[0][0]).expect(questions)
        records = [self.record(policy, costs=costs) for policy in policies]
        columns = list(dict.fromkeys(key for record in records for key in record))
        if "problem" in columns:
            columns = [name for name in columns if name != "problem"] + ["problem"]
        return pa.table({name: pa.array([record.get(name) for record in records]) for name in columns})

    def record(self, policy: SelectionConfig, *, costs: PieceCosts | None = None) -> dict[str, Any]:
        """One row."""
        row: dict[str, Any] = {"policy": describe_policy(policy)}
        policy.check(has_counts=self.counts is not None)
        answers, requested = self._answers_for(policy), self._requested(policy)
        try:
            numbers = answers.numbers(policy, requested)
        except SelectionError as error:
            return {**row, "problem": str(error)}
        size, frame = numbers.kept, answers.frame
        row.update(kept=size, **numbers.by_reason)
        row["vocabulary_reduction"] = 1 - size / frame.size
        if frame.has_counts:
            total, by_source = frame.totals
            row["coverage"] = _share(numbers.weighted, total)
            if len(frame.by_source) > 1:
                for name, number in numbers.by_source.items():
                    row[f"coverage:{name}"] = _share(number, by_source[name])
        if self.rows is not None:
            row["embedding_parameters"] = size * self.rows.parameters
            row["bytes_saved"] = (self.rows.rows - size) * self.rows.bytes
        if costs is not None:
            row.update(costs.columns(answers.reasons(policy, requested) != Reason.dropped))
        return row

    def smallest(self, policy: SelectionConfig) -> int:
        """How many tokens no policy can do without."""
        return int(self._answers_for(policy).frame.fixed.sum())

    def _requested(self, policy: SelectionConfig) -> np.ndarray:
        key = policy.model_dump_json(include=_REQUEST_FIELDS)
        if key not in self._requests:
            found = resolve_requests(self.spec, policy, context=self._context)
            self._requests[key] = found, found.mask(self.spec.vocab_size)
        return self._requests[key][1]

    def asked(self) -> list[Requests]:
        """What the policies so far asked for, resolved once for all that ask for the same."""
        return [requests for requests, _ in self._requests.values()]

    def _answers_for(self, policy: SelectionConfig) -> Answers:
        key = _weights_key(policy)
        if key not in self._answers:
            frame = Frame.of(self.spec, self.counts, source_weights=policy.source_weights)
            self._answers[key] = Answers(frame)
        return self._answers[key]


def _weights_key(policy: SelectionConfig) -> str:
    weights: Mapping[str, float] = policy.source_weights
    return repr(sorted(weights.items()))


def _share(number: int | float, total: int | float) -> float:
    return number / total if total else 1.0
