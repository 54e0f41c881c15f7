"""Which files a dataset entry names, and of what format they are. Knows names only, never contents."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trimbed.counting.config import DatasetConfig
from trimbed.counting.inputs import is_compressed, is_remote
from trimbed.storage.errors import CountingError, UsageError

__all__ = ["LOADERS", "DataFile", "file_format", "is_glob", "list_files"]

LOADERS = {"parquet": "parquet", "json": "jsonl", "csv": "csv", "text": "text", "arrow": "arrow"}
"""The ``datasets`` loaders whose files we read ourselves, and our reader for each."""

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "text",
    ".text": "text",
    ".arrow": "arrow",
    ".feather": "arrow",
}
_NOT_DATA = {
    "dataset_info.json",
    "dataset_infos.json",
    "dataset_dict.json",
    "state.json",
    "config.json",
    "manifest.json",
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """``name`` within the dataset, the same wherever the dataset lies, and ``path``, where it lies now."""

    name: str
    path: str


def file_format(name: str) -> str | None:
    """The reader for a file's name, or None."""
    bare = name.split("?")[0]
    if is_compressed(bare):
        bare = bare[: bare.rindex(".")]
    return _FORMATS.get(Path(bare).suffix.lower())


def list_files(dataset: DatasetConfig) -> tuple[str, list[DataFile]]:
    """The reader and the files of a dataset that is files (not a Hub id), sorted by name.

    Raises UsageError where the entry names no file, or files of several formats.
    """
    loader = LOADERS.get(dataset.path)
    base = "" if loader else dataset.path
    if dataset.data_dir:
        base = f"{base.rstrip('/')}/{dataset.data_dir}" if base else dataset.data_dir
    base = base if is_remote(base) else str(Path(base).expanduser()) if base else ""
    patterns = _patterns(dataset)
    if patterns is None and loader and not base:
        raise UsageError(f"dataset {dataset.path!r}: a loader name needs `data_files` or `data_dir`")
    files = _match(base, patterns)
    if patterns is None:
        files = _of_split(files, dataset.split)
    if not files:
        wanted = ", ".join(patterns) if patterns else base
        raise UsageError(f"dataset {dataset.source_name()!r}: no data file matches {wanted!r}")
    if loader:
        return loader, files
    return _one_format(dataset, files, explicit=patterns is not None or len(files) == 1 or is_glob(base))


def _patterns(dataset: DatasetConfig) -> list[str] | None:
    data_files = dataset.data_files
    if isinstance(data_files, dict):
        split = dataset.split or ("train" if "train" in data_files else None)
        if split is None and len(data_files) == 1:
            split = next(iter(data_files))
        if split not in data_files:
            raise UsageError(
                f"dataset {dataset.source_name()!r}: data_files has the splits {', '.join(map(repr, data_files))}; "
                f"choose one with `split`"
            )
        data_files = data_files[split]
    elif data_files is not None and dataset.split not in (None, "train"):
        raise UsageError(
            f"dataset {dataset.source_name()!r}: data_files without split names are the split 'train', "
            f"so there is no {dataset.split!r}"
        )
    if data_files is None:
        return None
    return [data_files] if isinstance(data_files, str) else list(data_files)


def _match(base: str, patterns: list[str] | None) -> list[DataFile]:
    if is_remote(base) or any(is_remote(pattern) for pattern in patterns or ()):
        from trimbed.counting.remote import list_remote

        return _distinct(DataFile(name, path) for name, path in list_remote(base, patterns))
    if patterns is None:
        return _distinct(_local(base, base))
    found: list[DataFile] = []
    for pattern in patterns:
        wanted = str(Path(base, Path(pattern).expanduser()))
        matches = list(_local(wanted, base or str(Path(wanted).parent)))
        if not matches:
            raise UsageError(f"no file matches {wanted!r}")
        found += matches
    return _distinct(found)


def _local(wanted: str, base: str) -> Iterable[DataFile]:
    path = Path(wanted)
    if path.is_file():
        yield DataFile(_relative(path, base), _absolute(path))
    elif path.is_dir():
        for file in _below(path):
            inside = file.relative_to(path).parts
            if not any(part.startswith((".", "_")) for part in inside):
                yield DataFile("/".join(inside), _absolute(file))
    else:
        parent = _fixed_parent(wanted)
        for match in sorted(glob.glob(wanted, recursive=True)):  # noqa: PTH207 - Path.glob refuses absolute patterns
            if Path(match).is_file():
                folder = base if base and match.startswith(base) else parent
                yield DataFile(_relative(Path(match), folder), _absolute(Path(match)))


def _below(folder: Path) -> list[Path]:
    """All files in ``folder``, sorted. Linked folders are entered, each once; a link to nothing is a file that can't be
    read, which is better said than passed over."""
    found: list[Path] = []
    entered: set[str] = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        entered.add(os.path.realpath(place))
        folders[:] = [name for name in folders if os.path.realpath(Path(place, name)) not in entered]
        for file in (Path(place, name) for name in files):
            if file.is_file() or not file.exists():
                found.append(file)
    return sorted(found)


def _absolute(path: Path) -> str:
    """One spelling for one place, so that a file named twice is counted once."""
    return os.path.abspath(path)  # noqa: PTH100 - unlike Path.absolute this takes `..` and `.` away


def is_glob(path: str) -> bool:
    """Whether a path is a pattern."""
    return any(character in path for character in "*?[")


def _fixed_parent(pattern: str) -> str:
    fixed: list[str] = []
    for part in Path(pattern).parts[:-1]:
        if any(character in part for character in "*?["):
            break
        fixed.append(part)
    return str(Path(*fixed)) if fixed else "."


def _relative(path: Path, base: str) -> str:
    try:
        inside = path.relative_to(base).as_posix() if base else path.name
    except ValueError:
        inside = path.name
    return path.name if inside == "." else inside


def _distinct(files: Iterable[DataFile]) -> list[DataFile]:
    by_path = {file.path: file for file in files}
    ordered = sorted(by_path.values(), key=lambda file: (file.name, file.path))
    names: dict[str, int] = {}
    for file in ordered:
        names[file.name] = names.get(file.name, 0) + 1
    return [file if names[file.name] == 1 else DataFile(file.path, file.path) for file in ordered]


def _of_split(files: list[DataFile], split: str | None) -> list[DataFile]:
    """The files whose name has the split as a word; without any such name, everything is ``train``."""
    if split is None:
        return files
    if not re.fullmatch(r"\w[\w.-]*", split):
        raise UsageError(f"split {split!r}: slices aren't supported; use `max_samples` for the first rows")
    word = re.compile(rf"(^|[^A-Za-z0-9]){re.escape(split)}([^A-Za-z0-9]|$)")
    named = [file for file in files if word.search(file.name)]
    return named or (files if split == "train" else [])


def _one_format(dataset: DatasetConfig, files: list[DataFile], *, explicit: bool) -> tuple[str, list[DataFile]]:
    formats: dict[str, list[DataFile]] = {}
    for file in files:
        kind = file_format(file.name) or ("text" if explicit and dataset.sample_by == "document" else None)
        if kind and (explicit or Path(file.name).name not in _NOT_DATA):
            formats.setdefault(kind, []).append(file)
        elif explicit:
            raise UsageError(
                f"{file.path}: the name doesn't tell the format; use a loader name as `path` "
                f"({', '.join(LOADERS)}) and this file in `data_files`"
            )
    if not formats:
        raise CountingError(
            f"dataset {dataset.source_name()!r}: none of the {len(files)} files in {dataset.path} is Parquet, JSONL, "
            "CSV, text or Arrow by its name; use a loader name as `path` and the files in `data_files`"
        )
    if len(formats) > 1:
        kinds = ", ".join(f"{len(found)} {kind}" for kind, found in sorted(formats.items()))
        raise UsageError(
            f"dataset {dataset.source_name()!r}: files of several formats ({kinds}); choose with `data_files`"
        )
    return next(iter(formats.items()))
