"""The whole trim of a GGUF file: the counterpart of trim.py for a checkpoint that is one file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimbed.errors import TrimError, VerificationError
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.gguf_file import GgufPlan, plan_gguf
from trimbed.trimming.plan import check_kept
from trimbed.trimming.preservation import check_texts
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.report import Change, FileReport, TensorReport, TrimReport, Verification
from trimbed.trimming.surgery import trim_document
from trimbed.trimming.target import check_disk_space, check_target, new_folder

if TYPE_CHECKING:
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["gguf_file_of", "trim_gguf"]


def gguf_file_of(spec: TokenizerSpec) -> Path | None:
    """The GGUF file that a tokenizer was read from, None for any other."""
    name, _, key = spec.decided_by.partition(" (tokenizer.")
    if not key or spec.folder is None:
        return None
    return Path(spec.folder) / name


def trim_gguf(
    spec: TokenizerSpec,
    path: Path,
    kept: np.ndarray,
    output: str | Path | None,
    *,
    config: TrimConfig,
    selection: Any,
    texts: list[str],
    reproduce: str = "",
) -> TrimReport:
    """See trimbed.trimming.trim.trim; ``output`` is a folder here too, and the file keeps its name in it."""
    from trimbed.tokenizer.spec import TokenizerSpec

    target = None
    if output is not None:
        target = check_target(Path(output), overwrite=config.overwrite, sources=())
        if target == path.resolve().parent or path.resolve().is_relative_to(target):
            raise TrimError(f"the output {output} holds the source {path}; choose another output")
    check_kept(spec, kept)
    document, old_to_new = trim_document(spec.document.data, kept)
    ids = Renumbering(old_to_new, config.pad_to_multiple_of)
    plan = plan_gguf(path, ids, json.dumps(document, ensure_ascii=False))
    report = _report(spec, plan, kept, document, selection, config, reproduce)
    if target is None:
        return report
    check_disk_space(target, plan.bytes_after + path.stat().st_size - plan.bytes_before)
    with new_folder(target) as folder:
        written = folder / path.name
        plan.write(written, block_bytes=config.block_bytes)
        report.files = [
            FileReport(name=path.name, action="rewritten", reason="tokens and rows cut", bytes=written.stat().st_size)
        ]
        if config.verify:
            report.verification = _verify(spec, TokenizerSpec.load(written), plan, written, texts)
            if not report.verification.passed:
                failures = "\n".join(f"  - {line}" for line in report.verification.failures)
                raise VerificationError(f"the result isn't what it must be; nothing was put in place:\n{failures}")
        ids.write(folder / "id_map.parquet")
        (folder / "trim_report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
        if config.html:
            from trimbed.trimming.report_page import report_page

            (folder / "trim_report.html").write_text(report_page(report), encoding="utf-8")
    return report


def _verify(
    spec: TokenizerSpec, result: TokenizerSpec, plan: GgufPlan, written: Path, texts: list[str]
) -> Verification:
    check = Verification()
    expected = [spec.tokens[int(number)] if number >= 0 else None for number in plan.ids.new_to_old]
    if result.tokens != expected:
        check.failures.append("the tokens read back from the result are not the kept ones in order")
    check.ids = f"{plan.ids.new_size} tokens read back as they were written"
    check.texts = check_texts(spec.tokenizer, result.tokenizer, plan.ids, texts, unknown=spec.unk_id)
    if check.texts.violation_count:
        check.failures.append(f"{check.texts.violation_count} texts whose ids are all kept changed")
    check.rows = plan.check(written)
    check.failures += check.rows.differences
    return check


def _report(
    spec: TokenizerSpec,
    plan: GgufPlan,
    kept: np.ndarray,
    document: dict[str, Any],
    selection: Any,
    config: TrimConfig,
    reproduce: str,
) -> TrimReport:
    from trimbed import __version__
    from trimbed.tokenizer.document import TokenizerDocument

    main = next((change for change in plan.changes if change.role == "input"), None)
    return TrimReport(
        trimbed=__version__,
        source=spec.source,
        revision=spec.revision,
        source_fingerprint=spec.fingerprint,
        result_fingerprint=TokenizerDocument(document).fingerprint,
        selection_digest=hashlib.sha256(kept.astype("<i8").tobytes()).hexdigest(),
        settings=config.model_dump(mode="json"),
        tokens=Change(before=plan.ids.old_size, after=plan.ids.new_size),
        rows=Change(before=main.before[0], after=main.after[0]) if main is not None and main.after else None,
        parameters=Change(before=plan.parameters_before, after=plan.parameters_after),
        weight_bytes=Change(before=plan.bytes_before, after=plan.bytes_after),
        kept_by_reason=selection.counts_by_reason() if hasattr(selection, "counts_by_reason") else {},
        tensors=[TensorReport.of(change) for change in plan.changes],
        config_changes=plan.config_changes,
        warnings=[*spec.notes, *plan.warnings],
        reproduce=reproduce,
    )
