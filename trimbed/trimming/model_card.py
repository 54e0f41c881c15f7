"""The section on a trim in a model card. Renders a report; keeps the rest of the card as it is."""

from __future__ import annotations

import re

from trimbed.trimming.report import TrimReport

__all__ = ["card_with_section"]

_BEGIN, _END = "<!-- trimbed: begin -->", "<!-- trimbed: end -->"


def card_with_section(card: str, report: TrimReport) -> str:
    """The card with one section on the trim at its end; an earlier one is replaced."""
    without = re.sub(re.escape(_BEGIN) + ".*?" + re.escape(_END) + r"\n?", "", card, flags=re.DOTALL).rstrip("\n")
    return (without + "\n\n" if without else "") + f"{_BEGIN}\n{_section(report)}{_END}\n"


def _section(report: TrimReport) -> str:
    source = report.source + (f" (revision {report.revision})" if report.revision else "")
    lines = [
        "## Trimmed vocabulary",
        "",
        f"This is `{source}` with its vocabulary cut by trimbed {report.trimbed}. Text whose tokens were all kept is",
        "encoded to the same tokens as before, under new ids (`id_map.parquet` has old and new).",
        "",
        "| | before | after |",
        "|---|---:|---:|",
        f"| tokens | {report.tokens.before:,} | {report.tokens.after:,} |",
    ]
    for name, change in (
        ("embedding rows", report.rows),
        ("parameters", report.parameters),
        ("bytes of weights", report.weight_bytes),
    ):
        if change is not None:
            lines.append(f"| {name} | {change.before:,} | {change.after:,} |")
    lines.append("")
    policy = report.selection.get("policy")
    if policy:
        shown = ", ".join(f"{key}: {value}" for key, value in policy.items() if value not in (None, [], {}, False))
        lines += [f"Policy: {shown}.", ""]
    lines += [
        f"Tokenizer fingerprint of the source: `{report.source_fingerprint}`.",
        f"Digest of the kept ids: `{report.selection_digest}`.",
        "",
    ]
    return "\n".join(lines)
