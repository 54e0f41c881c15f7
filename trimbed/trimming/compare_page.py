"""An audit as one HTML page, and as rows for the terminal. Renders; computes nothing."""

from __future__ import annotations

from html import escape
from typing import Any

from trimbed.trimming.compare import CompareReport
from trimbed.trimming.report_page import page, table

__all__ = ["compare_page", "compare_rows"]


def compare_rows(report: CompareReport) -> list[dict[str, Any]]:
    """The audit in rows of check, result."""
    rows: list[tuple[str, object]] = [
        ("tokens", f"{report.tokens.before:,} -> {report.tokens.after:,}"),
        ("subset of the base", _yes(report.subset)),
        ("order kept", _yes(report.order_kept)),
        ("ids without holes", _yes(report.contiguous)),
        ("structural tokens lost", len(report.structural_losses)),
        ("tokens that can't be built", report.unreachable_count),
    ]
    if report.merges is not None:
        rows.append(("merges", f"{report.merges.before:,} -> {report.merges.after:,}"))
    if report.texts is not None:
        texts = report.texts
        rows += [
            ("texts", f"{texts.kept:,} of {texts.texts:,} have only kept tokens"),
            ("texts that changed", texts.violation_count),
            ("tokens on the texts", f"{texts.tokens.before:,} -> {texts.tokens.after:,} (x{texts.length_ratio:.4f})"),
        ]
    if report.coverage is not None:
        rows.append(("coverage of the cache", f"{report.coverage:.6%}"))
    if report.piece_tokens is not None:
        rows.append(("tokens of the corpus", f"{report.piece_tokens.before:,} -> {report.piece_tokens.after:,}"))
    rows += [("note", note) for note in report.notes]
    rows += [("problem", problem) for problem in report.problems] or [("problems", "none")]
    return [{"check": name, "result": str(value)} for name, value in rows]


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def compare_page(report: CompareReport) -> str:
    """The audit as an HTML document."""
    verdict = (
        f'<span class="bad">{len(report.problems)} problems</span>'
        if report.problems
        else '<span class="good">a faithful trim</span>'
    )
    body = [
        f"<h1>{escape(report.other)} as a trim of {escape(report.base)}</h1><p>{verdict}</p>",
        table(("check", "result"), [(row["check"], row["result"]) for row in compare_rows(report)]),
    ]
    for title, losses in (("Structural losses", report.structural_losses), ("Can't be built", report.unreachable)):
        if losses:
            rows = [(loss.token, loss.id, loss.reason) for loss in losses]
            body += [f"<h2>{title}</h2>", table(("token", "id", "why"), rows)]
    for title, groups in (("Scripts", report.scripts), ("Presets", report.presets)):
        if groups:
            body += [f"<h2>{title}</h2>", table(("", "before", "after"), [(g.name, g.before, g.after) for g in groups])]
    if report.texts is not None:
        if report.texts.violations:
            shown = [(v.text, v.kind, v.expected, v.found) for v in report.texts.violations]
            body += ["<h2>Texts that changed</h2>", table(("text", "what", "expected", "found"), shown)]
        if report.texts.fragmented:
            grown = [(f.text, f.before, f.after) for f in report.texts.fragmented]
            body += ["<h2>Texts that grow most</h2>", table(("text", "before", "after"), grown)]
    return page(f"trimbed: {report.other}", body)
