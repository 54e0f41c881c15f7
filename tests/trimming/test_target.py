"""A trim is put in place whole or not at all, whatever happens; hostile files are refused with the reason."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from trimming_cases import numbered, read_tensors, save_model, save_tensors, words

from trimbed.errors import TrimError, UsageError, VerificationError
from trimbed.tokenizer.spec import TokenizerSpec
from trimbed.trimming import target as place
from trimbed.trimming import trim as trim_module
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.report import RowCheck
from trimbed.trimming.safetensors_file import SafetensorsFile
from trimbed.trimming.trim import trim


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return save_model(tmp_path / "source", words(8), {"wte.weight": numbered(8)}, {"vocab_size": 8})


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_an_existing_folder_is_only_replaced_when_asked_to(source: Path) -> None:
    output = source.parent / "out"
    spec = TokenizerSpec.load(source)
    trim(spec, [0, 1, 2], output)
    before = snapshot(output)
    with pytest.raises(UsageError, match="use --overwrite"):
        trim(spec, [0, 1], output)
    assert snapshot(output) == before
    trim(spec, [0, 1], output, config=TrimConfig(overwrite=True))
    assert len(read_tensors(output / "model.safetensors")["wte.weight"]) == 2
    assert sorted(p.name for p in source.parent.iterdir()) == ["out", "source"]


def test_the_same_inputs_give_the_same_bytes(source: Path) -> None:
    spec = TokenizerSpec.load(source)
    trim(spec, [0, 1, 2], source.parent / "a")
    trim(spec, [2, 1, 0, 0], source.parent / "b")
    assert snapshot(source.parent / "a") == snapshot(source.parent / "b")


def test_a_folder_of_something_else_is_never_overwritten(source: Path) -> None:
    output = source.parent / "home"
    output.mkdir()
    (output / "letters.txt").write_text("dear")
    with pytest.raises(UsageError, match="isn't a tokenizer's or a model's folder"):
        trim(TokenizerSpec.load(source), [0, 1], output, config=TrimConfig(overwrite=True))
    assert (output / "letters.txt").read_text() == "dear"


@pytest.mark.parametrize("where", [".", "inner", ".."])
def test_output_and_source_must_not_lie_in_each_other(source: Path, where: str) -> None:
    before = snapshot(source)
    with pytest.raises(UsageError, match="lie in each other"):
        trim(TokenizerSpec.load(source), [0, 1], source / where, config=TrimConfig(overwrite=True))
    assert snapshot(source) == before


def test_a_failed_verification_leaves_the_target_as_it_was(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = source.parent / "out"
    spec = TokenizerSpec.load(source)
    trim(spec, [0, 1, 2], output)
    before = snapshot(output)

    def wrong(*_: Any) -> RowCheck:
        return RowCheck(tensors=1, rows=0, differences=["wte.weight: rows [0] are not their originals"])

    monkeypatch.setattr("trimbed.trimming.weights.check_rows", wrong)
    with pytest.raises(VerificationError, match="not their originals"):
        trim(spec, [0, 1], output, config=TrimConfig(overwrite=True))
    assert snapshot(output) == before
    assert sorted(p.name for p in source.parent.iterdir()) == ["out", "source"]


def test_a_row_that_was_written_wrong_is_found(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimbed.trimming import checkpoint

    original = checkpoint.write_checkpoint

    def corrupt(*arguments: Any) -> Any:
        written = original(*arguments)
        raw = bytearray(written[0].read_bytes())
        raw[-1] ^= 1
        written[0].write_bytes(raw)
        return written

    monkeypatch.setattr("trimbed.trimming.weights.write_checkpoint", corrupt)
    with pytest.raises(VerificationError, match=r"rows \[2\] are not their originals"):
        trim(TokenizerSpec.load(source), [0, 1, 2], source.parent / "out")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("exists", [False, True])
def test_an_interruption_leaves_the_target_as_it_was(
    source: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, exists: bool
) -> None:
    output = source.parent / "out"
    spec = TokenizerSpec.load(source)
    if exists:
        trim(spec, [0, 1, 2], output)
    before = snapshot(source.parent)

    def stop(*_: Any) -> None:
        raise error

    monkeypatch.setattr(trim_module, "_finish", stop)
    with pytest.raises(type(error)):
        trim(spec, [0, 1], output, config=TrimConfig(overwrite=True))
    assert snapshot(source.parent) == before


def test_a_rename_that_fails_puts_the_old_folder_back(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = source.parent / "out"
    spec = TokenizerSpec.load(source)
    trim(spec, [0, 1, 2], output)
    before = snapshot(output)
    rename = Path.rename

    def failing(self: Path, to: Path) -> Path:
        if "trimbed-new" in self.name:
            raise OSError("no")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="no"):
        trim(spec, [0, 1], output, config=TrimConfig(overwrite=True))
    assert snapshot(output) == before


def test_a_folder_left_aside_by_a_killed_run_is_put_back(source: Path) -> None:
    aside = source.parent / ".out.trimbed-old-12345678"
    trim(TokenizerSpec.load(source), [0, 1, 2], source.parent / "out")
    (source.parent / "out").rename(aside)
    with pytest.raises(UsageError, match="use --overwrite"):
        place.check_target(source.parent / "out", overwrite=False)
    assert (source.parent / "out" / "tokenizer.json").is_file()


def test_killed_at_any_moment_the_target_is_one_whole_folder(source: Path) -> None:
    output = source.parent / "out"
    spec = TokenizerSpec.load(source)
    trim(spec, [0, 1, 2], output)
    code = (
        "import sys; from trimbed.tokenizer.spec import TokenizerSpec; from trimbed.trimming.trim import trim\n"
        "from trimbed.trimming.config import TrimConfig\n"
        "spec = TokenizerSpec.load(sys.argv[1])\n"
        "config = TrimConfig(overwrite=True, verify_model='never', html=False)\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    trim(spec, [0, 1], sys.argv[2], config=config)\n"
        "    trim(spec, [0, 1, 2, 3], sys.argv[2], config=config)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    for delay in (0.02, 0.05, 0.11, 0.17):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(source), str(output)], env=environment, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        place.check_target(output, overwrite=True)  # puts back what was between two renames
        size = TokenizerSpec.load(output).vocab_size
        assert size in (2, 3, 4)
        assert len(read_tensors(output / "model.safetensors")["wte.weight"]) == size
        assert json.loads((output / "config.json").read_text())["vocab_size"] == size
        assert json.loads((output / "trim_report.json").read_text())["tokens"]["after"] == size


def test_a_full_disk_is_noticed_before_anything_is_written(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr(place.shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(TrimError, match="1,000 are free; nothing was written"):
        trim(TokenizerSpec.load(source), [0, 1], source.parent / "out")
    assert [p.name for p in source.parent.iterdir()] == ["source"]


def test_a_plan_alone_writes_nothing(source: Path) -> None:
    report = trim(TokenizerSpec.load(source), [0, 1], None)
    assert report.rows is not None
    assert (report.rows.before, report.rows.after) == (8, 2)
    assert [p.name for p in source.parent.iterdir()] == ["source"]


@pytest.mark.parametrize("rest", ["copy", "hardlink", "symlink"])
def test_the_rest_comes_by_copy_or_link_and_the_source_is_never_written_to(source: Path, rest: Any) -> None:
    (source / "README.md").write_text("# card\n")
    (source / "NOTICE").write_text("notice")
    before = snapshot(source)
    trim(TokenizerSpec.load(source), [0, 1], source.parent / "out", config=TrimConfig(rest=rest))
    output = source.parent / "out"
    assert (output / "NOTICE").is_symlink() == (rest == "symlink")
    assert (output / "NOTICE").samefile(source / "NOTICE") == (rest != "copy")
    card = (output / "README.md").read_text()
    assert card.startswith("# card\n\n<!-- trimbed: begin -->")
    assert "| tokens | 8 | 2 |" in card
    assert snapshot(source) == before


# -- hostile and broken weight files --------------------------------------------------------------------------------


def header(content: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(begin: int, end: int, dtype: str = "F32", shape: Any = (1,)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape) if isinstance(shape, tuple) else shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x01", "less than the header's length field"),
        (header({}, length=10**15), "claims a header of 1000000000000000 bytes"),
        (header(b"{nope"), "no JSON"),
        (header([1]), "no JSON object"),
        (header({"a": {"dtype": "F32"}}), "lacks dtype, shape or data_offsets"),
        (header({"a": tensor(0, 4, dtype="F99")}, b"1234"), "unknown dtype 'F99'"),
        (header({"a": tensor(0, 8)}, b"12345678"), "needs 4 bytes, its offsets span 8"),
        (header({"a": tensor(0, 4, shape=(-1,))}, b"1234"), "no whole numbers"),
        (header({"a": tensor(0, 4, shape="x")}, b"1234"), "no whole numbers"),
        (header({"a": tensor(4, 8)}, b"12345678"), "begins at 4, expected 0"),
        (header({"a": tensor(0, 4), "b": tensor(2, 6)}, b"123456"), "begins at 2, expected 4"),
        (header({"a": tensor(0, 4)}, b"12"), "take 4 bytes, the file has 2"),
        (header({"a": tensor(0, 4)}, b"123456"), "take 4 bytes, the file has 6"),
        (header({"a": tensor(0, 2**62, shape=(2**60,))}, b""), "the file has 0"),
    ],
)
def test_a_broken_safetensors_file_is_refused_with_the_reason(tmp_path: Path, raw: bytes, reason: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(raw)
    with pytest.raises(TrimError, match=reason):
        SafetensorsFile(path)


@pytest.mark.parametrize(
    "name", ["../secret.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..", "x.bin", ".x.safetensors"]
)
def test_a_shard_index_may_only_name_files_beside_it(source: Path, name: str) -> None:
    (source / "model.safetensors").unlink()
    save_tensors(source.parent / "secret.safetensors", {"wte.weight": numbered(8)})
    index = {"metadata": {}, "weight_map": {"wte.weight": name}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(TrimError, match="expected the plain name"):
        trim(TokenizerSpec.load(source), [0, 1], source.parent / "out")


def test_a_missing_shard_and_a_wrong_index_are_named(source: Path) -> None:
    index = {"metadata": {}, "weight_map": {"wte.weight": "model-00001-of-00002.safetensors"}}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(TrimError, match="which isn't there"):
        trim(TokenizerSpec.load(source), [0, 1], source.parent / "out")
    (source / "model.safetensors").rename(source / "model-00001-of-00002.safetensors")
    index["weight_map"]["lm_head.weight"] = "model-00001-of-00002.safetensors"
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(TrimError, match=r"places 'lm_head\.weight' in"):
        trim(TokenizerSpec.load(source), [0, 1], source.parent / "out")


def test_a_module_outside_of_the_folder_is_refused(source: Path) -> None:
    modules = [{"idx": 0, "name": "0", "path": "../elsewhere", "type": "sentence_transformers.models.Transformer"}]
    (source / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(TrimError, match="outside the folder"):
        trim(TokenizerSpec.load(source), [0, 1], source.parent / "out")
