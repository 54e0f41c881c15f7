"""A trim report as one HTML page without anything from elsewhere. Renders; computes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from trimbed.trimming.report import Change, TrimReport

__all__ = ["page", "report_page", "table"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --good: #2a7; --bad: #c33; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line);
text-align: left; vertical-align: top; overflow-wrap: anywhere; } th { font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; white-space: nowrap; }
.bar { background: var(--soft); height: .6rem; border-radius: .3rem; } .bar > div { background: #48c; height: 100%;
border-radius: .3rem; } code { font-family: ui-monospace, monospace; white-space: pre-wrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .soft { opacity: .7; } pre { background: var(--soft);
padding: .7rem; overflow-x: auto; border-radius: .3rem; }
"""


def page(title: str, body: Iterable[str]) -> str:
    """A whole HTML document."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table; numbers are set right, strings are escaped."""
    body = list(rows)
    numeric = [bool(body) and all(isinstance(row[i], (int, float)) for row in body) for i in range(len(head))]
    cells = "".join(f"<th{' class=n' if numeric[i] else ''}>{escape(name)}</th>" for i, name in enumerate(head))
    lines = [f"<table><tr>{cells}</tr>"]
    for row in body:
        tds = "".join(f"<td{' class=n' if numeric[i] else ''}>{_cell(value)}</td>" for i, value in enumerate(row))
        lines.append(f"<tr>{tds}</tr>")
    return "\n".join([*lines, "</table>"])


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return escape("" if value is None else str(value))


def report_page(report: TrimReport) -> str:
    """trim_report.html."""
    check = report.verification
    verdict = (
        '<span class="good">verified</span>'
        if check.ids and check.passed
        else '<span class="bad">failed</span>'
        if check.failures
        else '<span class="soft">not verified</span>'
    )
    body = [
        f"<h1>{escape(report.source)}: {report.tokens.before:,} → {report.tokens.after:,} tokens</h1>",
        f"<p>{verdict} · trimbed {escape(report.trimbed)}</p>",
        "<h2>Sizes</h2>",
        table(("", "before", "after", "saved", "left"), _sizes(report)),
    ]
    if report.kept_by_reason:
        body += ["<h2>Why tokens are kept</h2>", _bars(report.kept_by_reason)]
    if report.coverage is not None:
        rows = [("all, weighted", report.coverage), *report.coverage_by_source.items()]
        body += ["<h2>Coverage</h2>", table(("source", "share of tokens kept"), rows)]
    body += ["<h2>Verification</h2>", table(("check", "result"), _checks(report))]
    for violation in check.texts.violations:
        body.append(
            f"<p class=bad>{escape(violation.kind)} of <code>{escape(violation.text)}</code>: expected "
            f"<code>{escape(violation.expected)}</code>, got <code>{escape(violation.found)}</code></p>"
        )
    if report.warnings:
        body += ["<h2>Warnings</h2><ul>", *(f"<li>{escape(line)}</li>" for line in report.warnings), "</ul>"]
    if report.dropped_tokens:
        dropped = [(t.token, t.id, t.count) for t in report.dropped_tokens]
        body += ["<h2>Most frequent dropped tokens</h2>", table(("token", "id", "count"), dropped)]
    if check.texts.fragmented:
        found = [(t.text, t.before, t.after) for t in check.texts.fragmented]
        body += ["<h2>Texts that grow most</h2>", table(("text", "tokens before", "after"), found)]
    if report.tensors:
        shapes = [
            (t.name, t.role, t.dtype, str(t.before), str(t.after or "not written"), t.reason) for t in report.tensors
        ]
        body += ["<h2>Vocabulary tensors</h2>", table(("tensor", "role", "dtype", "before", "after", "why"), shapes)]
    if report.config_changes:
        body += ["<h2>Configuration</h2><ul>", *(f"<li>{escape(line)}</li>" for line in report.config_changes), "</ul>"]
    files = [(f.name, f.action, f.reason, f.bytes) for f in report.files]
    body += ["<h2>Files</h2>", table(("file", "", "why", "bytes"), files)]
    if report.reproduce:
        body += ["<h2>To reproduce</h2>", f"<pre>{escape(report.reproduce)}</pre>"]
    body.append(
        f"<p class=soft>Tokenizer fingerprints: {report.source_fingerprint} → {report.result_fingerprint}. "
        f"Digest of the kept ids: {report.selection_digest}.</p>"
    )
    return page(f"trimbed: {report.source}", body)


def _sizes(report: TrimReport) -> list[tuple[object, ...]]:
    named: list[tuple[str, Change | None]] = [
        ("tokens", report.tokens),
        ("embedding rows", report.rows),
        ("parameters", report.parameters),
        ("bytes of weights", report.weight_bytes),
    ]
    return [
        (name, c.before, c.after, c.saved, f"{c.after / c.before:.1%}" if c.before else "") for name, c in named if c
    ]


def _checks(report: TrimReport) -> list[tuple[str, str]]:
    check = report.verification
    rows = [
        ("ids", check.ids or "not run"),
        (
            "preservation",
            f"{check.texts.kept:,} of {check.texts.texts:,} texts have only kept ids; "
            f"{check.texts.violation_count} of them changed",
        ),
        (
            "length ratio",
            f"{check.texts.length_ratio:.4f} ({check.texts.tokens.before:,} → {check.texts.tokens.after:,})",
        ),
        ("unknown tokens", f"{check.texts.unknown.before:,} → {check.texts.unknown.after:,}"),
        ("transformers", check.transformers),
    ]
    if check.rows is not None:
        rows.append(("rows", f"{check.rows.rows:,} rows of {check.rows.tensors} tensors equal bit for bit"))
    if check.model is not None:
        rows.append(("model", model_line(report)))
    return rows


def model_line(report: TrimReport) -> str:
    """The model check in a sentence."""
    model = report.verification.model
    if model is None:
        return "no weights"
    if model.skipped:
        return f"not run: {model.skipped}"
    parts = []
    if model.hidden_difference is not None:
        parts.append(f"hidden states differ by at most {model.hidden_difference:.3g}")
    if model.logit_difference is not None:
        parts.append(f"logits by at most {model.logit_difference:.3g}")
    return f"{', '.join(parts)} on {model.texts} texts (tolerance {model.tolerance:g})"


def _bars(numbers: dict[str, int]) -> str:
    most = max(numbers.values(), default=1) or 1
    rows = [
        f'<tr><td>{escape(name)}</td><td class=n>{number:,}</td><td style="width:60%"><div class=bar>'
        f'<div style="width:{number / most:.1%}"></div></div></td></tr>'
        for name, number in numbers.items()
    ]
    return "<table>" + "".join(rows) + "</table>"
