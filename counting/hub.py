"""Hub datasets and what else only ``datasets`` knows to resolve: a pinned revision, its files, their shards.

Where a dataset is files of a format we read ourselves, ``datasets`` only says which files; else it reads them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trimbed.counting.config import DatasetConfig
from trimbed.counting.listing import DataFile
from trimbed.counting.planning import Plan, Unreadable, plan_files
from trimbed.counting.shards import Extent, ReadOptions, Source
from trimbed.storage.errors import CountingError, UsageError

__all__ = ["load_iterable", "resolve_hub"]

_READERS = {"parquet": "parquet", "json": "jsonl", "csv": "csv", "text": "text", "arrow": "arrow"}
_PLAIN = {"json": ("field",), "csv": ("sep", "delimiter", "names", "quotechar", "skiprows", "column_names"), "text": ()}
"""Loader settings that, when a dataset's card sets them, leave the reading to ``datasets``."""
_FEW_FILES = 64


def resolve_hub(dataset: DatasetConfig, *, shard_bytes: int, unreadable: Unreadable) -> Source:
    """The source of a Hub dataset, its revision resolved to a commit, or of a loader that isn't ours.

    Raises UsageError where there is no such dataset, configuration or split; CountingError where the Hub can't be
    reached.
    """
    revision = _commit(dataset)
    builder = _asking(dataset, lambda: _builder(dataset, revision))
    split = _choose_split(dataset, builder)
    identity: dict[str, object] = {"hub": dataset.path, "revision": revision, "split": split}
    if dataset.name or builder.config.name != "default":
        identity["name"] = dataset.name or builder.config.name
    if not dataset.streaming:
        return _prepared(dataset, builder, split, identity, shard_bytes, unreadable)
    loader = type(builder).__module__.rsplit(".", 1)[-1]
    files = list(map(str, (builder.config.data_files or {}).get(split, ())))
    if files and loader in _READERS and _is_plain(loader, builder):
        try:
            plan = plan_files(
                _READERS[loader],
                [DataFile(_name_in_repository(url), url) for url in files],
                column=dataset.text_column,
                max_samples=dataset.max_samples,
                target=shard_bytes,
                unreadable=Unreadable.STOP if loader == "json" and unreadable is Unreadable.SET_ASIDE else unreadable,
            )
            return _source(dataset, plan, identity)
        except CountingError:
            if loader != "json":
                raise
            # Not one object a line: datasets reads other JSON too.
    return _source(dataset, _iterable_plan(dataset, revision, split), identity)


def _source(dataset: DatasetConfig, plan: Plan, identity: dict[str, object]) -> Source:
    from trimbed.counting.sources import describe_files, source_of_plan

    return source_of_plan(dataset, plan, identity | (describe_files(plan.files) if plan.files else {}))


def _commit(dataset: DatasetConfig) -> str | None:
    """The commit that the dataset's revision (or its main branch) is now; None for a loader's name."""
    if dataset.path in _packaged():
        return None
    from huggingface_hub import HfApi

    info = _asking(dataset, lambda: HfApi().dataset_info(dataset.path, revision=dataset.revision))
    return str(info.sha)


def _packaged() -> set[str]:
    from datasets.packaged_modules import _PACKAGED_DATASETS_MODULES

    return set(_PACKAGED_DATASETS_MODULES)


def _asking(dataset: DatasetConfig, question: Any) -> Any:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        return question()
    except GatedRepoError as error:
        raise CountingError(f"dataset {dataset.path!r}: access must be asked for on the Hub first: {error}") from error
    except RevisionNotFoundError as error:
        raise UsageError(f"dataset {dataset.path!r}: there is no revision {dataset.revision!r}") from error
    except RepositoryNotFoundError as error:
        raise UsageError(
            f"dataset {dataset.path!r}: neither a file or folder here nor a dataset on the Hub (or a private one)"
        ) from error
    except ValueError as error:
        raise UsageError(f"dataset {dataset.path!r}: {error}") from error
    except (UsageError, CountingError):
        raise
    except Exception as error:
        raise CountingError(
            f"dataset {dataset.path!r}: can't be reached: {type(error).__name__}: {error}. "
            "Is it a local path that doesn't exist, or is there no connection?"
        ) from error


def _builder(dataset: DatasetConfig, revision: str | None) -> Any:
    import datasets

    return datasets.load_dataset_builder(
        dataset.path,
        name=dataset.name,
        data_dir=dataset.data_dir,
        data_files=_data_files(dataset),
        revision=revision,
    )


def _data_files(dataset: DatasetConfig) -> Any:
    data_files = dataset.data_files
    if isinstance(data_files, tuple):
        return list(data_files)
    if isinstance(data_files, dict):
        return {split: list(files) if isinstance(files, tuple) else files for split, files in data_files.items()}
    return data_files


def _choose_split(dataset: DatasetConfig, builder: Any) -> str:
    known = list(builder.config.data_files or builder.info.splits or {})
    names = [str(split) for split in known]
    if dataset.split is not None:
        if names and dataset.split not in names:
            raise UsageError(
                f"dataset {dataset.path!r}: no split {dataset.split!r}; it has {', '.join(map(repr, names))} "
                "(slices aren't supported; use `max_samples` for the first rows)"
            )
        return dataset.split
    if "train" in names or not names:
        return "train"
    if len(names) == 1:
        return names[0]
    raise UsageError(f"dataset {dataset.path!r}: it has the splits {', '.join(map(repr, names))}; choose with `split`")


def _is_plain(loader: str, builder: Any) -> bool:
    default = type(builder.config)()
    return all(
        getattr(builder.config, setting, None) == getattr(default, setting, None) for setting in _PLAIN.get(loader, ())
    )


def _name_in_repository(url: str) -> str:
    """``hf://datasets/owner/name@commit/a/b.parquet`` -> ``a/b.parquet``."""
    inside = url.split("@", 1)[-1]
    return inside.split("/", 1)[-1] if "/" in inside else inside


def _prepared(
    dataset: DatasetConfig,
    builder: Any,
    split: str,
    identity: dict[str, object],
    shard_bytes: int,
    unreadable: Unreadable,
) -> Source:
    """Downloaded and prepared by ``datasets`` in its own cache folder, then read from there."""

    def prepare() -> Any:
        builder.download_and_prepare()
        return builder.as_dataset(split=split)

    ready = _asking(dataset, prepare)
    files = [DataFile(Path(entry["filename"]).name, str(entry["filename"])) for entry in ready.cache_files]
    plan = plan_files(
        "arrow",
        files,
        column=dataset.text_column,
        max_samples=dataset.max_samples,
        target=shard_bytes,
        unreadable=unreadable,
    )
    plan.files.clear()
    return _source(dataset, plan, identity)


def _iterable_plan(dataset: DatasetConfig, revision: str | None, split: str) -> Plan:
    arguments: dict[str, object] = {
        "path": dataset.path,
        "name": dataset.name,
        "data_dir": dataset.data_dir,
        "data_files": _data_files(dataset),
        "revision": revision,
        "split": split,
    }
    opened = _asking(dataset, lambda: load_iterable(arguments))
    names = opened.column_names
    if names is not None and dataset.text_column not in names:
        raise CountingError(
            f"dataset {dataset.path!r}: no column {dataset.text_column!r}; it has {', '.join(map(repr, names))}"
        )
    number = opened.num_shards
    details: dict[str, object] = {"load": arguments, "shards": number}
    options = ReadOptions("datasets", dataset.text_column, dataset.max_samples, details)
    extents = [Extent(f"shard-{index}", dataset.path, index, index + 1) for index in range(number)]
    groups: list[tuple[Extent, ...]] = [(extent,) for extent in extents]
    return Plan([tuple(extents)] if dataset.max_samples is not None else groups, options, {})


def load_iterable(arguments: dict[str, Any]) -> Any:
    """The streamed dataset, its Parquet files resharded by row group where there are few files.

    Deterministic: the same arguments give the same shards in every process.
    """
    import datasets

    opened = datasets.load_dataset(**arguments, streaming=True)
    return opened.reshard() if opened.num_shards < _FEW_FILES else opened
