"""Draws a sweep: vocabulary size against what it costs or covers. PNG and SVG by matplotlib, HTML by itself."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimbed.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["plot_sweep"]

# The first of these that the table has; what it means; whether less is better.
_MEASURES = (
    ("length_ratio", "tokens needed, against the whole vocabulary", True),
    ("coverage", "share of the counted tokens that is kept", False),
)


def plot_sweep(table: pa.Table, path: Path) -> None:
    """Write ``table`` (of ``sweep``) as a picture to ``path``: .png or .svg (the plot extra), or .html (nothing else).

    Raises UsageError for other endings or a table with nothing to draw, MissingExtra without matplotlib.
    """
    ending = path.suffix.lower()
    if ending not in (".png", ".svg", ".html"):
        raise UsageError(f"{path} can't be drawn: end its name in .png, .svg or .html")
    measure, meaning, points = _points(table)
    if ending == ".html":
        _write(path, _page(measure, meaning, points).encode())
    else:
        _write(path, _picture(measure, meaning, points, ending[1:]))


def _points(table: pa.Table) -> tuple[str, str, list[dict[str, Any]]]:
    for measure, meaning, _ in _MEASURES:
        if measure not in table.column_names:
            continue
        rows = table.to_pylist()
        found = [
            {"x": row["kept"], "y": row[measure], "policy": row["policy"]}
            for row in rows
            if row["kept"] is not None and row[measure] is not None
        ]
        if found:
            return measure, meaning, sorted(found, key=lambda point: (point["x"], point["y"]))
    raise UsageError("nothing to draw: no policy has a cost or a coverage")


def _picture(measure: str, meaning: str, points: list[dict[str, Any]], format: str) -> bytes:
    import io

    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra(
            "PNG and SVG need the plot extra: pip install 'trimbed[plot]'; .html needs nothing"
        ) from None
    sink = io.BytesIO()
    with rc_context({"svg.hashsalt": "trimbed"}):  # the same picture gives the same bytes
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([p["x"] for p in points], [p["y"] for p in points], "o", markersize=4)
        axes.set_xlabel("tokens kept")
        axes.set_ylabel(f"{measure}: {meaning}")
        axes.grid(visible=True, alpha=0.3)
        figure.savefig(sink, format=format, dpi=150, metadata={"Date": None} if format == "svg" else None)
    return sink.getvalue()


def _page(measure: str, meaning: str, points: list[dict[str, Any]]) -> str:
    """A page with the drawing as SVG, a name for each point on hovering, and the numbers as a table."""
    width, height, left, bottom = 860, 460, 80, 50
    xs, ys = [p["x"] for p in points], [p["y"] for p in points]
    x0, x1 = _range(xs)
    y0, y1 = _range(ys)

    def across(x: float) -> float:
        return left + (x - x0) / (x1 - x0) * (width - left - 20)

    def up(y: float) -> float:
        return height - bottom - (y - y0) / (y1 - y0) * (height - bottom - 20)

    marks = []
    for step in range(6):
        x, y = x0 + (x1 - x0) * step / 5, y0 + (y1 - y0) * step / 5
        marks.append(f'<text x="{across(x):.1f}" y="{height - bottom + 20}" text-anchor="middle">{x:,.0f}</text>')
        marks.append(f'<text x="{left - 8}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.4g}</text>')
        marks.append(f'<line x1="{left}" x2="{width - 20}" y1="{up(y):.1f}" y2="{up(y):.1f}" class="grid"/>')
    dots = [
        f'<circle cx="{across(p["x"]):.1f}" cy="{up(p["y"]):.1f}" r="4"><title>{html.escape(p["policy"])}\n'
        f"{p['x']:,} tokens, {measure} {p['y']:.6g}</title></circle>"
        for p in points
    ]
    rows = [f"<tr><td>{html.escape(p['policy'])}</td><td>{p['x']:,}</td><td>{p['y']:.6g}</td></tr>" for p in points]
    data = json.dumps(points).replace("<", "\\u003c")  # a policy's text can't end the script
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>trimbed sweep</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2rem; max-width: {width}px }}
svg {{ width: 100% }} circle {{ fill: #2563eb }} .grid {{ stroke: #ddd }} text {{ font-size: 12px }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem .8rem; text-align: right }}
td:first-child, th:first-child {{ text-align: left }}
</style>
<h1>Vocabulary size against {html.escape(measure)}</h1>
<p>{html.escape(measure)}: {html.escape(meaning)}. Hover over a point for its policy.</p>
<svg viewBox="0 0 {width} {height}" role="img">{"".join(marks)}{"".join(dots)}
<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">tokens kept</text></svg>
<table><tr><th>policy</th><th>tokens kept</th><th>{html.escape(measure)}</th></tr>
{"".join(rows)}</table>
<script type="application/json" id="data">{data}</script>
</html>
"""


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 1, high + 1)


def _write(path: Path, data: bytes) -> None:
    from trimbed.storage.atomic import write_file

    write_file(str(path), data)
