"""A trim report for the terminal. Renders; computes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimbed.trimming.report import TrimReport
from trimbed.trimming.report_page import model_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["summary"]


def summary(report: TrimReport) -> RenderableType:
    """Sizes, reasons, coverage and what was proved, as one rich renderable."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    sizes = Table(title=f"{report.source}", title_justify="left", header_style="bold")
    for name in ("", "before", "after", "left"):
        sizes.add_column(name, justify="right" if name else "left")
    for label, change in (
        ("tokens", report.tokens),
        ("embedding rows", report.rows),
        ("parameters", report.parameters),
        ("bytes of weights", report.weight_bytes),
    ):
        if change is not None:
            left = f"{change.after / change.before:.1%}" if change.before else ""
            sizes.add_row(label, f"{change.before:,}", f"{change.after:,}", left)
    lines = []
    if report.kept_by_reason:
        kept = ", ".join(f"{name} {number:,}" for name, number in report.kept_by_reason.items() if number)
        lines.append(f"kept: {kept}")
    if report.coverage is not None:
        by_source = ", ".join(f"{name} {share:.4%}" for name, share in report.coverage_by_source.items())
        lines.append(f"coverage: {report.coverage:.4%}" + (f" ({by_source})" if by_source else ""))
    lines += _verification(report)
    left_out = [file.name for file in report.files if file.action == "left out"]
    if left_out:
        lines.append(f"left out: {', '.join(left_out)}")
    return Group(sizes, *(Text(line) for line in lines))


def _verification(report: TrimReport) -> list[str]:
    check = report.verification
    if not check.ids:
        return ["not verified"]
    texts = check.texts
    lines = [
        f"verified: {check.ids}",
        f"  texts: {texts.kept:,} of {texts.texts:,} have only kept ids, {texts.violation_count:,} of them changed; "
        f"length ratio {texts.length_ratio:.4f}",
        f"  transformers: {check.transformers}",
    ]
    if check.rows is not None:
        lines.append(f"  rows: {check.rows.rows:,} rows of {check.rows.tensors} tensors equal bit for bit")
        lines.append(f"  model: {model_line(report)}")
    return lines
