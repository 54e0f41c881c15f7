"""Presets hold what their names say, from real Unicode and CLDR data; users and packages can add their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import made
import numpy as np
import pytest
from graphs import bpe

from trimbed.errors import UsageError
from trimbed.selection import presets
from trimbed.selection.presets import (
    available_presets,
    preset_rows,
    register_parametrised_preset,
    register_preset,
    resolve_preset,
)
from trimbed.selection.surfaces import code_points
from trimbed.tokenizer.spec import TokenizerSpec

WORDS = [
    "a", " a", "Zé", "7", " 1990", "a1", "!?", " (", "\t", "  ", "e\u0301", "да", "ή", "ひらー", "漢字", "한", "हिं",
    "a да", "🙂", "👍🏽", "🇩🇪", "#", "é", "ü", "the cat", "…",
]  # fmt: skip


@pytest.fixture(scope="module")
def words() -> TokenizerSpec:
    """Tokens that stand for themselves."""
    return bpe(WORDS, [], added=["<s>"])


def held(name: str, spec: TokenizerSpec) -> list[str]:
    return [str(spec.tokens[index]) for index in np.flatnonzero(resolve_preset(name, spec))]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("single_characters", ["a", " a", "7", " (", "ή", "한", "🙂", "#", "é", "ü", "…"]),
        ("ascii_letters", ["a", " a"]),
        ("digits", ["7", " 1990"]),
        ("alphanumeric", ["a", " a", "7", " 1990", "a1"]),
        ("punctuation", ["!?", " (", "#"]),
        ("whitespace", ["\t", "  "]),
        ("emoji", ["🙂", "👍🏽", "🇩🇪"]),
        ("script:Cyrillic", ["да"]),
        ("script:cyrl", ["да"]),
        ("script:Greek", ["ή"]),
        ("script:Jpan", ["ひらー", "漢字"]),
        ("script:Hiragana", ["ひらー"]),
        ("script:Hani", ["漢字"]),
        ("script:Kore", ["漢字", "한"]),
        ("script:Deva", ["हिं"]),
        ("script:Latin", ["a", " a", "Zé", "a1", "e\u0301", "é", "ü", "the cat", "<s>"]),
        ("range:U+0400-U+04FF", ["да"]),
        ("range:U+0030-U+0039,U+1F642", ["7", " 1990", "🙂"]),
        ("range:U+0009", ["\t"]),
        ("added_tokens", ["<s>"]),
        ("special_tokens", ["<s>"]),
        ("structural", ["<s>"]),
        ("unk", []),
    ],
)
def test_a_preset_holds_what_its_name_says(words: TokenizerSpec, name: str, expected: list[str]) -> None:
    assert held(name, words) == expected


def test_ascii_printable_takes_mixed_tokens(words: TokenizerSpec) -> None:
    assert "the cat" in held("ascii_printable", words) and "Zé" not in held("ascii_printable", words)


def test_a_languages_alphabet_is_the_one_that_cldr_lists(words: TokenizerSpec) -> None:
    assert held("language:de", words) == ["a", " a", "ü"]
    assert held("language:fr", words) == ["a", " a", "Zé", "e\u0301", "é", "ü"]
    assert held("language:ru", words) == ["да"]
    assert held("language:hi", words) == ["हिं"]
    with pytest.raises(UsageError, match="CLDR lists no characters for the language 'xx'"):
        resolve_preset("language:xx", words)


def test_byte_tokens_are_the_byte_alphabet_on_both_kinds_of_byte_vocabulary() -> None:
    for name, number in (("bpe", 256), ("metaspace_bpe", 256), ("unigram", 0), ("wordpiece", 0)):
        assert resolve_preset("byte_alphabet", TokenizerSpec.from_document(made.tiny(name))).sum() == number, name


def test_what_is_always_kept_is_structural(any_tiny: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(any_tiny)
    structural = resolve_preset("structural", spec)
    for info in available_presets():
        if info.always_kept:
            assert structural[resolve_preset(info.name, spec)].all(), info.name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digit", "did you mean digits"),
        ("script", "needs an argument"),
        ("script:Latn1", "there is no script"),
        ("range:0400", "write U\\+0400-U\\+04FF"),
        ("range:U+0500-U+0400", "must ascend"),
    ],
)
def test_an_unknown_preset_is_refused_with_the_nearest(words: TokenizerSpec, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_preset(name, words)


def test_users_can_register_their_own(words: TokenizerSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_presets", dict(presets._presets))
    monkeypatch.setattr(presets, "_families", dict(presets._families))

    @register_preset("dots")
    def dots(context: presets.PresetContext) -> np.ndarray:
        """Tokens of nothing but dots."""
        return context.table.wholly(code_points("….·"))

    @register_parametrised_preset("starts")
    def starts(context: presets.PresetContext, letter: str) -> np.ndarray:
        """Tokens that start with a letter."""
        return np.array([(text or "").startswith(letter) for text in context.spec.surfaces()])

    assert held("dots", words) == ["…"] and held("starts:Z", words) == ["Zé"]
    assert "Tokens of nothing but dots." in {info.summary for info in available_presets()}
    with pytest.raises(UsageError, match="there is a preset 'dots' already"):
        register_preset("dots")(dots)
    with pytest.raises(UsageError, match="has a colon"):
        register_preset("a:b")(dots)


def test_packages_add_presets_by_an_entry_point(tmp_path: Path) -> None:
    info = tmp_path / "arrows-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: arrows\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[trimbed.presets]\narrows = arrows_preset:arrows\n")
    (tmp_path / "arrows_preset.py").write_text(
        "from trimbed.selection.surfaces import code_points\n\n\n"
        "def arrows(context):\n    'Tokens of arrows.'\n    return context.table.wholly(code_points('←→'))\n"
    )
    code = (
        "from trimbed.selection.presets import available_presets\n"
        "print([i.summary for i in available_presets() if i.name == 'arrows'])"
    )
    import trimbed

    paths = [str(tmp_path), *(str(Path(path).parent) for path in trimbed.__path__[:1])]
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{code}"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.stdout.strip() == "['Tokens of arrows.']", run.stderr


def test_rows_show_every_preset_with_the_number_of_its_tokens(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    rows = {row["preset"]: row for row in preset_rows([], spec)}
    assert rows["byte_alphabet"]["tokens"] == 256 and rows["byte_alphabet"]["kept"] == "always"
    assert rows["digits"]["kept"] == "on request" and rows["script:Latn"]["tokens"] > 100
    assert all(row["what"] for row in rows.values())
    assert [row["preset"] for row in preset_rows(["script:Greek"])] == ["script:Greek"]
