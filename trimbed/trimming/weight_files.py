"""Finds a checkpoint's weight files and opens them together. Knows file names and formats, not vocabularies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from trimbed.errors import TrimError
from trimbed.trimming.safetensors_file import SafetensorsFile, TensorInfo
from trimbed.trimming.tensors import TensorShape

__all__ = ["SafetensorsCheckpoint", "find_model_folder", "find_weights", "read_json", "text_config_of"]


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises TrimError with the path."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrimError(f"{path} can't be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise TrimError(f"{path} holds a {type(content).__name__}, not an object")
    return content


def text_config_of(folder: Path) -> dict[str, Any]:
    """config.json of a model folder, {} where there is none."""
    path = folder / "config.json"
    return read_json(path) if path.is_file() else {}


def find_model_folder(folder: Path) -> Path:
    """Where config and weights are: ``folder`` itself, or the transformer module of a sentence-transformers folder."""
    listing = folder / "modules.json"
    if not listing.is_file():
        return folder
    try:
        modules = json.loads(listing.read_text(encoding="utf-8"))
        first = [m["path"] for m in modules if str(m["type"]).endswith(("Transformer", "StaticEmbedding"))]
    except (ValueError, KeyError, TypeError) as error:
        raise TrimError(f"{listing} isn't a list of modules: {error}") from None
    if not first:
        return folder
    inner = (folder / first[0]).resolve()
    if not inner.is_relative_to(folder.resolve()):
        raise TrimError(f"{listing} names a module outside the folder: {first[0]!r}")
    return folder / first[0] if first[0] else folder


@dataclass(frozen=True)
class Weights:
    """``kind``: safetensors, bin or none. ``files``: the files with tensors; ``index``: the shard index, if any."""

    kind: str
    files: tuple[Path, ...]
    index: Path | None = None


def find_weights(folder: Path) -> Weights:
    """The weights of a model folder: safetensors before PyTorch's, an index before a single file.

    Raises TrimError where an index names files that are missing or aren't plain names in the folder.
    """
    for kind, single, ending in (
        ("safetensors", "model.safetensors", ".safetensors"),
        ("bin", "pytorch_model.bin", ".bin"),
    ):
        index = folder / f"{single}.index.json"
        if index.is_file():
            return Weights(kind, _shards(index, ending), index)
        if (folder / single).is_file():
            return Weights(kind, (folder / single,))
    others = sorted(p for p in folder.glob("*.safetensors") if not p.name.startswith(("adapter", "consolidated")))
    if len(others) == 1:
        return Weights("safetensors", (others[0],))
    if len(others) > 1:
        raise TrimError(
            f"{folder} has several safetensors files and no index: {', '.join(p.name for p in others[:6])}; "
            "add model.safetensors.index.json"
        )
    return Weights("none", ())


def _shards(index: Path, ending: str) -> tuple[Path, ...]:
    names = sorted(set(_weight_map(read_json(index), index).values()))
    for name in names:
        # The index comes from whoever made the checkpoint: it may only name files beside itself.
        if "/" in name or "\\" in name or "\0" in name or name.startswith(".") or not name.endswith(ending):
            raise TrimError(f"{index} names a shard {name!r}; expected the plain name of a {ending} file beside it")
        if not (index.parent / name).is_file():
            raise TrimError(f"{index} names the shard {name!r}, which isn't there; download the whole checkpoint")
    return tuple(index.parent / name for name in names)


def _weight_map(content: Mapping[str, Any], index: Path) -> dict[str, str]:
    found = content.get("weight_map")
    if not isinstance(found, dict) or not found or not all(isinstance(name, str) for name in found.values()):
        raise TrimError(f"{index} has no weight_map of tensor names to files")
    return found


class SafetensorsCheckpoint:
    """All safetensors files of a checkpoint, open for reading. Use as a context manager."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.files: dict[str, SafetensorsFile] = {}
        self.where: dict[str, str] = {}
        try:
            for path in weights.files:
                self.files[path.name] = SafetensorsFile(path)
            self._place()
        except BaseException:
            self.close()
            raise

    def _place(self) -> None:
        for file, opened in self.files.items():
            for name in opened.tensors:
                if name in self.where:
                    raise TrimError(f"tensor {name!r} stands in two files, {self.where[name]} and {file}")
                self.where[name] = file
        if self.weights.index is not None:
            for name, file in _weight_map(read_json(self.weights.index), self.weights.index).items():
                if self.where.get(name) != file:
                    raise TrimError(f"{self.weights.index} places {name!r} in {file}, where it isn't")

    def __enter__(self) -> SafetensorsCheckpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for file in self.files.values():
            file.close()

    def info(self, name: str) -> TensorInfo:
        return self.files[self.where[name]].tensors[name]

    def file(self, name: str) -> SafetensorsFile:
        return self.files[self.where[name]]

    def shapes(self) -> list[TensorShape]:
        """Name, dtype and shape of every tensor, file by file, in the order of their data."""
        return [
            TensorShape(info.name, info.dtype, info.shape)
            for file in self.files.values()
            for info in file.tensors.values()
        ]
