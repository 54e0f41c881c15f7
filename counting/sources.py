"""A dataset entry -> a source: resolved files, identity and shards. Knows where each kind of entry is resolved."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from trimbed.counting.config import DatasetConfig
from trimbed.counting.inputs import is_remote
from trimbed.counting.listing import LOADERS, DataFile, is_glob, list_files
from trimbed.counting.planning import Plan, Unreadable, plan_files
from trimbed.counting.shards import Source, make_shards, plan_hash
from trimbed.storage.errors import CountingError, UsageError

__all__ = ["describe_files", "resolve_source", "source_of_plan"]

_LISTED_FILES = 2000
"""Up to so many files are listed one by one in a source's identity; beyond, by number, size and one digest."""


def resolve_source(
    dataset: DatasetConfig, *, shard_bytes: int = 64 << 20, unreadable: Unreadable = Unreadable.STOP
) -> Source:
    """Find the dataset's files, what identifies them, and slice them into shards of about ``shard_bytes``.

    Raises UsageError for an entry that names nothing, CountingError for files that can't be read or lack the text
    column.
    """
    if not is_remote(dataset.path):
        local = Path(dataset.path).expanduser()
        if dataset.load_from_disk or _is_saved(local, dataset):
            return _from_files(dataset, "arrow", _saved_files(local, dataset), shard_bytes, unreadable)
        if dataset.path not in LOADERS and not local.exists() and not is_glob(dataset.path):
            return _from_hub(dataset, local, shard_bytes, unreadable)
    if dataset.revision:
        raise UsageError(f"dataset {dataset.path!r}: a revision belongs to a Hub dataset, and this one is files")
    reader, files = list_files(dataset)
    if reader == "text" and dataset.sample_by == "document":
        reader = "document"
    return _from_files(dataset, reader, files, shard_bytes, unreadable)


def _from_files(
    dataset: DatasetConfig, reader: str, files: Sequence[DataFile], shard_bytes: int, unreadable: Unreadable
) -> Source:
    plan = plan_files(
        reader,
        files,
        column=dataset.text_column,
        max_samples=dataset.max_samples,
        target=shard_bytes,
        unreadable=unreadable,
    )
    return source_of_plan(dataset, plan, describe_files(plan.files))


def source_of_plan(dataset: DatasetConfig, plan: Plan, identity: dict[str, object]) -> Source:
    """The source of a plan: shards numbered, and ``identity`` completed by what else decides the rows."""
    name = dataset.source_name()
    shards = make_shards(name, plan.groups, plan.options)
    reader = plan.options.reader
    identity = {"format": reader, **identity}
    if reader not in ("text", "document"):
        identity["text_column"] = dataset.text_column
    if dataset.max_samples is not None:
        identity["max_samples"] = dataset.max_samples
    if plan.left_out:
        identity["left_out"] = sorted(plan.left_out)
    return Source(name, identity, shards, plan_hash(shards), plan.left_out)


def describe_files(files: dict[str, str]) -> dict[str, object]:
    """Identity entries for files: one a file, so that a changed one is named; for very many, one for all."""
    if len(files) <= _LISTED_FILES:
        return {f"file {name}": identity for name, identity in files.items()}
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:32]
    return {"files": {"number": len(files), "digest": digest}}


def _is_saved(folder: Path, dataset: DatasetConfig) -> bool:
    if dataset.path in LOADERS or dataset.data_files:
        return False
    return (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()


def _saved_files(folder: Path, dataset: DatasetConfig) -> list[DataFile]:
    """The Arrow files of a ``save_to_disk`` folder, in the order it states."""
    if not folder.is_dir():
        raise UsageError(f"dataset {dataset.path!r}: no such folder")
    if (folder / "dataset_dict.json").is_file():
        splits = _json(folder / "dataset_dict.json").get("splits")
        names = [str(split) for split in splits] if isinstance(splits, list) else []
        split = dataset.split or ("train" if "train" in names else names[0] if len(names) == 1 else None)
        if split not in names:
            raise UsageError(
                f"dataset {dataset.path!r}: it has the splits {', '.join(map(repr, names))}; choose one with `split`"
            )
        folder = folder / split
    if not (folder / "state.json").is_file():
        raise UsageError(f"dataset {dataset.path!r}: not a folder that save_to_disk wrote (no state.json)")
    entries = _json(folder / "state.json").get("_data_files")
    names = [str(entry["filename"]) for entry in entries] if isinstance(entries, list) else []
    for name in names:
        if Path(name).name != name:
            raise CountingError(f"{folder / 'state.json'}: names a file outside the folder: {name!r}")
    if not names:
        raise CountingError(f"{folder / 'state.json'}: lists no data files")
    return [DataFile(name, str((folder / name).absolute())) for name in names]


def _json(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CountingError(f"{path}: can't be read: {error}") from error
    if not isinstance(value, dict):
        raise CountingError(f"{path}: not a JSON object")
    return value


def _from_hub(dataset: DatasetConfig, local: Path, shard_bytes: int, unreadable: Unreadable) -> Source:
    if dataset.path.startswith(("/", ".", "~")) or local.suffix or dataset.path.count("/") > 1:
        raise UsageError(f"dataset {dataset.path!r}: no such file or folder")
    from trimbed.counting.hub import resolve_hub

    return resolve_hub(dataset, shard_bytes=shard_bytes, unreadable=unreadable)
