"""Sorts the files of a checkpoint's folder: which are rewritten, which come along, which are left out, and why."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trimbed.trimming.vocabulary_files import is_vocabulary_file

__all__ = ["FileNote", "Sorted", "bring_along", "is_checkpoint", "sort_files"]

Action = Literal["written", "rewritten", "brought along", "left out"]

TOKENIZER_JSON = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
CONFIG_JSON = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
)
_OURS = ("trim_report.json", "trim_report.html", "id_map.parquet", "trim_config.yaml", "selection.json")
_SKIPPED_FOLDERS = ("__pycache__", ".git", ".cache", ".ipynb_checkpoints")
_OTHER_WEIGHTS = {
    ".h5": "TensorFlow weights with the old vocabulary",
    ".msgpack": "Flax weights with the old vocabulary",
    ".ot": "Rust weights with the old vocabulary",
    ".onnx": "an ONNX graph with the old vocabulary",
    ".onnx_data": "an ONNX graph's data with the old vocabulary",
    ".tflite": "a TFLite graph with the old vocabulary",
    ".mlmodel": "a Core ML graph with the old vocabulary",
    ".gguf": "a GGUF file with the old vocabulary; trim it by giving it as the model",
    ".pt": "PyTorch weights with the old vocabulary",
    ".pth": "PyTorch weights with the old vocabulary",
    ".ckpt": "weights with the old vocabulary",
    ".npz": "weights with the old vocabulary",
}


@dataclass(frozen=True)
class FileNote:
    """What became of one file; ``name`` is relative to the folder."""

    name: str
    action: Action
    reason: str
    bytes: int = 0


@dataclass
class Sorted:
    """Files by what happens to them; paths are relative to the folder."""

    tokenizer_json: list[Path]
    config_json: list[Path]
    vocabulary: list[Path]
    along: list[Path]
    left_out: list[FileNote]


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder is a model's, so that everything in it belongs together (a package's folder isn't)."""
    return any((folder / name).is_file() for name in ("config.json", "modules.json", "model.safetensors.index.json"))


def sort_files(folder: Path, model_folder: Path, weights: Iterable[Path], *, with_rest: bool) -> Sorted:
    """Decide on every file below ``folder``.

    ``model_folder``: where tokenizer, config and weights are. ``weights``: the weight files that are dealt with
    elsewhere. ``with_rest`` false brings only what belongs to a tokenizer.
    """
    found = Sorted([], [], [], [], [])
    handled = {path.resolve() for path in weights}
    for path in _walk(folder):
        relative = path.relative_to(folder)
        beside = path.parent == model_folder
        if path.name in _OURS or (beside and path.name == "tokenizer.json") or path.resolve() in handled:
            continue
        if beside and path.name in TOKENIZER_JSON:
            found.tokenizer_json.append(relative)
        elif is_vocabulary_file(path.name) and (beside or path.parent.name in ("original", "tokenizer")):
            found.vocabulary.append(relative)
        elif path.name.startswith("chat_template.") or path.parent.name == "additional_chat_templates":
            found.along.append(relative)
        elif not with_rest:
            continue
        elif beside and path.name in CONFIG_JSON:
            found.config_json.append(relative)
        elif reason := _stale(path, model_folder):
            found.left_out.append(FileNote(str(relative), "left out", reason, path.stat().st_size))
        else:
            found.along.append(relative)
    return found


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(root) / name
            if path.is_file():
                yield path


def _stale(path: Path, model_folder: Path) -> str | None:
    """Why a file of weights can't come along; None for one that can (a dense module of sentence-transformers)."""
    for ending, reason in _OTHER_WEIGHTS.items():
        if path.name.endswith(ending):
            return reason
    if path.name == "params.json":
        return "the sizes of weights in another layout"
    if path.name.startswith("consolidated") and path.suffix in (".safetensors", ".json"):
        return "a second copy of the weights, in another layout"
    if path.parent == model_folder:
        if path.suffix == ".bin" and path.name.startswith("pytorch_model"):
            return "a second copy of the weights, with the old vocabulary"
        if path.name.endswith(".index.json"):
            return "the index of weights that are left out"
        if path.suffix == ".safetensors":
            return "weights that the index doesn't name, with the old vocabulary"
        if path.suffix == ".xml" and path.name.startswith("openvino"):
            return "an OpenVINO graph with the old vocabulary"
    if path.parent.name == "openvino":
        return "an OpenVINO graph with the old vocabulary"
    return None


def bring_along(source: Path, target: Path, how: str) -> None:
    """Copy or link one file. A symbolic link in the source (a Hub cache) is followed first."""
    target.parent.mkdir(parents=True, exist_ok=True)
    real = source.resolve()
    if how == "symlink":
        target.symlink_to(real)
        return
    if how == "hardlink":
        try:
            target.hardlink_to(real)
            return
        except OSError:
            pass  # another file system: a copy does as well
    shutil.copyfile(real, target)
    shutil.copymode(real, target)
    target.chmod(target.stat().st_mode | 0o200)
