"""The whole trim: plan, write beside the target, prove, put in place. The parts do the work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import TrimError, VerificationError
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.gguf_trim import gguf_file_of, trim_gguf
from trimbed.trimming.model_card import card_with_section
from trimbed.trimming.plan import TrimPlan, plan_trim
from trimbed.trimming.preservation import check_texts, load_quiet
from trimbed.trimming.report import (
    Change,
    DroppedToken,
    FileReport,
    ModelCheck,
    TensorReport,
    TrimReport,
    Verification,
)
from trimbed.trimming.rest_files import bring_along
from trimbed.trimming.surgery import check_loads
from trimbed.trimming.target import check_disk_space, check_target, new_folder

if TYPE_CHECKING:
    from trimbed.selection.selection import Selection
    from trimbed.storage.counts import CorpusCounts
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["template_texts", "trim"]

_TOP_DROPPED = 50


def trim(
    spec: TokenizerSpec,
    selection: Selection | Iterable[int] | np.ndarray,
    output: str | Path | None,
    *,
    config: TrimConfig | None = None,
    counts: CorpusCounts | None = None,
    texts: Sequence[str] = (),
    resolved: Mapping[str, Any] | None = None,
    reproduce: str = "",
) -> TrimReport:
    """Cut a tokenizer, and the model it came with, to the kept ids and write both to ``output``.

    ``selection``: a Selection or the kept ids. ``counts``: for the report (coverage, dropped tokens) and, by their
    samples, for the proof. ``texts``: more texts to prove preservation on, such as keep_texts. ``resolved``: the whole
    configuration, written to trim_config.yaml. ``output`` None only plans: nothing is written, the report says what
    would be.

    The result is written beside ``output``, proved there, and only then renamed.

    Raises TrimError where the selection or the checkpoint can't be trimmed, VerificationError where the result isn't
    what it must be; in both cases ``output`` is as it was.

    >>> report = trim(TokenizerSpec.load("minilm"), selection, "minilm-small", counts=cache.read_counts())
    >>> report.tokens.before, report.tokens.after
    (30522, 9034)
    """
    config = config or TrimConfig()
    kept = _kept_ids(spec, selection)
    root = _root_of(spec)
    gguf = gguf_file_of(spec)
    if gguf is not None:
        proof = list(dict.fromkeys([*texts, *_kept_texts(selection), *_samples(counts, config), *template_texts(spec)]))
        report = trim_gguf(
            spec, gguf, kept, output, config=config, selection=selection, texts=proof, reproduce=reproduce
        )
        return report
    target = None
    if output is not None:
        sources = (root,) if root is not None else ()
        target = check_target(Path(output), overwrite=config.overwrite, sources=sources)
    with ExitStack() as stack:
        plan = plan_trim(spec, kept, config=config, folder=root, stack=stack)
        report = _report(plan, selection, counts, config, reproduce)
        if target is None:
            return report
        check_disk_space(target, plan.bytes_needed)
        with new_folder(target) as folder:
            _write(plan, folder, config)
            if config.verify:
                proof = [*texts, *_kept_texts(selection), *_samples(counts, config)]
                report.verification = _verify(plan, folder, config, proof)
                if "itself differs" in report.verification.transformers:
                    report.warnings.append(f"AutoTokenizer: {report.verification.transformers}")
                if not report.verification.passed:
                    raise VerificationError(
                        "the result isn't what it must be; nothing was put in place:\n"
                        + "\n".join(f"  - {line}" for line in report.verification.failures)
                    )
            _finish(plan, folder, report, selection, config, resolved)
    return report


def _kept_ids(spec: TokenizerSpec, selection: Any) -> np.ndarray:
    """int64, ascending, each once. Raises TrimError for another tokenizer's selection."""
    kept = getattr(selection, "kept", selection)
    fingerprint = getattr(selection, "fingerprint", None)
    if fingerprint is not None and fingerprint != spec.fingerprint:
        raise TrimError(
            f"the selection was made for another tokenizer (fingerprint {fingerprint[:12]}…) than {spec.source} "
            f"({spec.fingerprint[:12]}…); select again"
        )
    ids = np.asarray(kept if isinstance(kept, np.ndarray) else list(kept))
    if ids.size and not np.issubdtype(ids.dtype, np.integer):
        raise TrimError(f"kept ids must be integers, not {ids.dtype}")
    return np.unique(ids.astype(np.int64))


def _root_of(spec: TokenizerSpec) -> Path | None:
    return Path(spec.folder) if spec.folder is not None else None


def _samples(counts: CorpusCounts | None, config: TrimConfig) -> Iterator[str]:
    samples = getattr(counts, "samples", None) or ()
    for sample in islice(samples, config.verify_texts):
        yield sample if isinstance(sample, str) else sample.text


def _kept_texts(selection: Any) -> Iterator[str]:
    """What the policy asked to keep as text."""
    policy = getattr(selection, "policy", None) or {}
    yield from policy.get("keep_texts") or ()
    for name in policy.get("keep_text_files") or ():
        path = Path(name).expanduser()
        if path.is_file():  # it may have gone since the selection was made
            yield path.read_text(encoding="utf-8", errors="replace")


def template_texts(spec: TokenizerSpec) -> list[str]:
    """What a chat template prints: its literal parts, and, where jinja2 is installed, a rendered conversation."""
    from trimbed.tokenizer.chat import chat_template_literals

    found: list[str] = []
    for template in spec.chat_templates().values():
        found += chat_template_literals(template)
        found += _rendered(spec, template)
    return found


def _rendered(spec: TokenizerSpec, template: str) -> list[str]:
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        return []
    names = {f"{role}_token": spec.tokens[number] for role, number in spec.special_ids.items()}
    messages = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "3"},
    ]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    try:
        return [environment.from_string(template).render(messages=messages, add_generation_prompt=True, **names)]
    except (TemplateError, TypeError, ValueError, ArithmeticError, AttributeError):
        return []  # it wants what we can't know (tools, dates); its literal parts are checked all the same


def _write(plan: TrimPlan, folder: Path, config: TrimConfig) -> None:
    for path, data in plan.contents.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    for path in plan.along:
        assert plan.root is not None
        bring_along(plan.root / path, folder / path, config.rest)
    if plan.weights is not None:
        (folder / plan.prefix).mkdir(parents=True, exist_ok=True)
        plan.weights.write(folder / plan.prefix)


def _verify(plan: TrimPlan, folder: Path, config: TrimConfig, texts: Sequence[str]) -> Verification:
    """Prove what was written, from the files as they are."""
    from trimbed.trimming.transformers_check import check_auto_tokenizer

    check = Verification()
    written = (folder / plan.prefix / "tokenizer.json").read_text(encoding="utf-8")
    check_loads(json.loads(written))
    check.ids = f"{plan.ids.new_size} ids load as they were written"
    every = list(dict.fromkeys([*texts, *template_texts(plan.spec)]))
    new = load_quiet(written)
    check.texts = check_texts(plan.spec.tokenizer, new, plan.ids, every, unknown=plan.spec.unk_id)
    if check.texts.violation_count:
        first = check.texts.violations[0]
        check.failures.append(
            f"{check.texts.violation_count} of {check.texts.kept} texts whose ids are all kept changed; the first, "
            f"{first.text[:60]!r}: expected {first.kind} {first.expected!r}, got {first.found!r}"
        )
    outcome, problem = check_auto_tokenizer(plan, folder / plan.prefix, every[:64])
    check.transformers = outcome
    if problem is not None:
        check.failures.append(problem)
    if plan.weights is not None:
        check.rows = plan.weights.check(folder / plan.prefix)
        check.failures += check.rows.differences
        check.model = _check_model(plan, folder, config, every)
        check.failures += check.model.failures
    return check


def _check_model(plan: TrimPlan, folder: Path, config: TrimConfig, texts: Sequence[str]) -> ModelCheck:
    assert plan.weights is not None and plan.model_folder is not None
    if config.verify_model == "never":
        return ModelCheck(skipped="verify_model is never")
    if config.verify_model == "auto":
        if plan.weights.bytes_before > config.verify_model_limit:
            return ModelCheck(
                skipped=f"the checkpoint is larger than verify_model_limit ({config.verify_model_limit:,})"
            )
        from importlib.util import find_spec

        if find_spec("torch") is None or find_spec("transformers") is None:
            return ModelCheck(skipped="torch and transformers aren't installed (pip install 'trimbed[model]')")
        if not (plan.model_folder / "config.json").is_file():
            return ModelCheck(skipped="there is no config.json to load a model by")
    from trimbed.trimming.model_check import check_model

    return check_model(plan, folder / plan.prefix, config, texts)


def _report(
    plan: TrimPlan, selection: Any, counts: CorpusCounts | None, config: TrimConfig, reproduce: str
) -> TrimReport:
    from trimbed import __version__
    from trimbed.tokenizer.document import TokenizerDocument

    spec = plan.spec
    report = TrimReport(
        trimbed=__version__,
        source=spec.source,
        revision=spec.revision,
        source_fingerprint=spec.fingerprint,
        result_fingerprint=TokenizerDocument(plan.document).fingerprint,
        selection=_described(selection),
        selection_digest=hashlib.sha256(plan.kept.astype("<i8").tobytes()).hexdigest(),
        settings=config.model_dump(mode="json"),
        tokens=Change(before=plan.ids.old_size, after=plan.ids.new_size),
        kept_by_reason=selection.counts_by_reason() if hasattr(selection, "counts_by_reason") else {},
        files=[FileReport(name=n.name, action=n.action, reason=n.reason, bytes=n.bytes) for n in plan.notes],
        config_changes=plan.config_changes,
        warnings=[*spec.notes, *plan.warnings],
        reproduce=reproduce,
    )
    if plan.weights is not None:
        main = next(c for c in plan.weights.changes if c.role == "input" and c.after is not None)
        assert main.after is not None
        report.rows = Change(before=main.before[0], after=main.after[0])
        report.parameters = Change(before=plan.weights.parameters_before, after=plan.weights.parameters_after)
        report.weight_bytes = Change(before=plan.weights.bytes_before, after=plan.weights.bytes_after)
        report.tensors = [TensorReport.of(change) for change in plan.weights.changes]
    if counts is not None:
        _add_counts(report, plan, counts)
    return report


def _described(selection: Any) -> dict[str, Any]:
    """Policy, sizes and input hashes of a Selection; nothing for bare ids."""
    found: dict[str, Any] = {}
    for key in ("policy", "sizes", "inputs", "notes"):
        value = getattr(selection, key, None)
        if value:
            found[key] = dict(value) if isinstance(value, Mapping) else list(value)
    return found


def _add_counts(report: TrimReport, plan: TrimPlan, counts: CorpusCounts) -> None:
    report.coverage = float(counts.coverage_of(plan.kept))
    for name, numbers in sorted(counts.by_source.items()):
        total = int(numbers.sum())
        report.coverage_by_source[name] = float(numbers[plan.kept].sum() / total) if total else 1.0
    dropped = np.array(counts.counts, dtype=np.float64)
    dropped[plan.kept] = 0
    top = np.argsort(-dropped, kind="stable")[:_TOP_DROPPED]
    report.dropped_tokens = [
        DroppedToken(id=int(number), token=plan.spec.tokens[int(number)] or "", count=float(dropped[number]))
        for number in top
        if dropped[number] > 0
    ]


def _finish(
    plan: TrimPlan,
    folder: Path,
    report: TrimReport,
    selection: Any,
    config: TrimConfig,
    resolved: Mapping[str, Any] | None,
) -> None:
    """The files about the trim itself."""
    import yaml

    plan.ids.write(folder / "id_map.parquet")
    if hasattr(selection, "to_json"):
        (folder / "selection.json").write_text(selection.to_json(), encoding="utf-8")
    settings = dict(resolved) if resolved is not None else {"trim": config.model_dump(mode="json")}
    (folder / "trim_config.yaml").write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), "utf-8")
    if config.model_card and plan.root is not None and plan.weights is not None:
        readme = folder / "README.md"
        before = readme.read_text(encoding="utf-8") if readme.is_file() else ""
        if readme.is_symlink() or readme.exists():
            readme.unlink()  # a link would write into the source
        readme.write_text(card_with_section(before, report), encoding="utf-8")
        report.files = [file for file in report.files if file.name != "README.md"]
        report.files.append(
            FileReport(
                name="README.md", action="rewritten", reason="a section on the trim", bytes=readme.stat().st_size
            )
        )
    report.files.sort(key=lambda file: file.name)
    (folder / "trim_report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    if config.html:
        from trimbed.trimming.report_page import report_page

        (folder / "trim_report.html").write_text(report_page(report), encoding="utf-8")
