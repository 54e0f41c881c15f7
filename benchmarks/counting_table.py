"""From records of counting.py to a Markdown table and a list of differences. Measures nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

Record = Mapping[str, Any]

BEST = "kernel"


def speed(records: Sequence[Record]) -> float | None:
    """Median MB/s."""
    own = [one["bytes"] / 1e6 / one["seconds"] for one in records if "seconds" in one]
    return median(own) if own else None


def cpu_speed(records: Sequence[Record]) -> float | None:
    """Median MB for each second of processor time, where one process did the work: steadier on a busy machine."""
    own = [one["bytes"] / 1e6 / one["cpu_seconds"] for one in records if one.get("cpu_seconds")]
    return median(own) if own else None


def differences(records: Iterable[Record]) -> list[str]:
    """Where two contenders counted the same text and got different counts.

    tiktoken has no normalizer and no added tokens, so its counts are compared in the table but are no fault of anyone.
    """
    groups: dict[tuple[Any, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in records:
        if "counts" in one and one["contender"] not in ("read", "tiktoken"):
            groups[one["tokenizer"], one["corpus"], one["bytes"]][one["counts"]].add(one["contender"])
    return [
        f"{tokenizer} on {corpus}: " + " | ".join(f"{', '.join(sorted(who))} {counts}" for counts, who in found.items())
        for (tokenizer, corpus, _), found in groups.items()
        if len(found) > 1
    ]


def table(records: Sequence[Record]) -> str:
    """Medians; the ratio says how many times faster the kernel is, on the same text where both were measured on it."""
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for one in records:
        groups[one["tokenizer"], one["corpus"], one["cores"], one["contender"], one["slice"]].append(one)
    lines = [
        "| tokenizer | corpus | cores | contender | MB/s | MB/CPU s | kernel is | peak MB | load s | equal |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (tokenizer, corpus, cores, contender, part), own in groups.items():
        mine, mine_cpu = speed(own), cpu_speed(own)
        kernels = groups.get((tokenizer, corpus, cores, BEST, part)) or groups.get(
            (tokenizer, corpus, cores, BEST, "all"), []
        )
        best, best_cpu = speed(kernels), cpu_speed(kernels)
        if mine is None:
            why = own[0].get("unsupported", "")
            lines.append(f"| {tokenizer} | {corpus} | {cores} | {contender} | – | – | – | – | – | {why[:60]} |")
            continue
        by_wall = f"{best / mine:.2f}x" if best else "–"
        by_cpu = f" ({best_cpu / mine_cpu:.2f}x CPU)" if best_cpu and mine_cpu else ""
        same = {one["counts"] for one in kernels if one["bytes"] == own[0]["bytes"]}
        equal = "–" if contender == "read" or not same else "yes" if {one["counts"] for one in own} == same else "NO"
        name = contender if part == "all" else f"{contender}, first {own[0]['bytes'] / 1e6:.0f} MB"
        peak, load = max(one["peak_mb"] for one in own), median(one["load_seconds"] for one in own)
        cpu = f"{mine_cpu:.1f}" if mine_cpu else "–"
        cells = [tokenizer, corpus, cores, name, f"{mine:.1f}", cpu, by_wall + by_cpu, peak, f"{load:.1f}", equal]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    machines = sorted(
        {
            f"{m['processor']}, {m['cores']} cores, Python {m['python']}, commit {m['commit']}"
            for m in (one["machine"] for one in records)
        }
    )
    return "\n".join([*lines, "", *machines])
