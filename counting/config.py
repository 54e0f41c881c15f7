"""What a user may say about a corpus: its datasets and how to count them. Knows no files, tokenizers or workers."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

__all__ = ["CorpusConfig", "DatasetConfig"]

_ENDINGS = re.compile(r"(\.(parquet|pq|jsonl|ndjson|json|csv|tsv|txt|text|arrow|feather))?(\.(gz|zst|bz2|lz4))?$", re.I)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$", max_length=120)]


class DatasetConfig(BaseModel):
    """One dataset of a corpus: a *source*."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(
        min_length=1,
        description="A file, a glob, a folder of data files or one that save_to_disk wrote, a URL, a Hub dataset id, "
        "or a loader name (parquet, json, csv, text, arrow, …) together with data_files.",
    )
    name: str | None = Field(default=None, description="The configuration (subset) of a Hub dataset.")
    split: str | None = Field(default=None, description="The split; train, or the only one, if not given.")
    data_files: str | tuple[str, ...] | dict[str, str | tuple[str, ...]] | None = Field(
        default=None, description="Files or globs, as one string, a list, or by split."
    )
    data_dir: str | None = Field(default=None, description="A folder within path.")
    revision: str | None = Field(
        default=None, description="The revision of a Hub dataset: a commit, a tag or a branch."
    )
    text_column: str = Field(default="text", min_length=1, description="The column that holds the text.")
    sample_by: Literal["line", "document"] = Field(
        default="line", description="Text files: whether a document is a line, or a whole file."
    )
    streaming: bool = Field(
        default=True, description="Off: what only `datasets` can read is downloaded and prepared on disk first."
    )
    max_samples: int | None = Field(
        default=None, ge=1, description="Only the first so many rows, in the dataset's order; hardly more is read."
    )
    weight: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="Applied when counts are read; what is stored stays raw."
    )
    load_from_disk: bool = Field(default=False, description="path is a folder that save_to_disk wrote.")
    source: Name | None = Field(
        default=None, description="The dataset's name in the cache; made from path, name and split if not given."
    )
    trust_remote_code: bool = Field(
        default=False, description="Refused: datasets that run code of their own aren't read."
    )

    @field_validator("trust_remote_code")
    @classmethod
    def _no_code(cls, value: bool) -> bool:
        if value:
            raise ValueError("datasets that run code of their own aren't read; convert the dataset to Parquet")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> DatasetConfig:
        if self.load_from_disk and (self.data_files or self.data_dir or self.revision or self.name):
            raise ValueError("load_from_disk takes a folder in path, and no data_files, data_dir, name or revision")
        return self

    def source_name(self) -> str:
        """The name this dataset has in the cache: a function of this entry alone, safe as a file name."""
        if self.source:
            return self.source
        path = re.sub(r"^(\./+)+", "", self.path)  # ./data and data are one source
        cleaned = path.split("://")[-1].split("?")[0].rstrip("/")
        file = "/" not in cleaned and _ENDINGS.sub("", cleaned) != cleaned
        local = file or "://" in path or path.startswith((".", "/", "~")) or cleaned.count("/") > 1
        parts = [_ENDINGS.sub("", cleaned.rsplit("/", 1)[-1]) if local else cleaned.replace("/", "--")]
        if isinstance(self.data_files, str):
            parts.append(_ENDINGS.sub("", self.data_files.split("?")[0].rstrip("/").rsplit("/", 1)[-1]))
        parts += [part for part in (self.data_dir, self.name, self.split) if part]
        name = _UNSAFE.sub("_", "-".join(parts)).strip("._-")[:100]
        return name or "data"


class CorpusConfig(BaseModel):
    """A corpus and how to count it.

    Of these, ``datasets``, ``keep_pieces``, ``sample_size`` and ``shard_megabytes`` decide what a cache holds; all
    others are about speed, memory and faults, and never change a number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    datasets: tuple[DatasetConfig, ...] = Field(
        default=(), description="What to count, each dataset a source of its own."
    )

    executor: Literal["multiprocess", "inline", "ray"] = Field(
        default="multiprocess",
        description="Where shards are counted: worker processes, this process, or a Ray cluster.",
    )
    workers: int | None = Field(
        default=None, ge=1, le=4096, description="Worker processes, or Ray tasks at once; one a processor if not given."
    )
    address: str | None = Field(
        default=None, description="The Ray cluster to use; a local one is started if not given."
    )
    part: str | None = Field(
        default=None, pattern=r"^\d+/\d+$", description="i/n: count only the i-th of n parts of the shards, from 0."
    )

    engine: Literal["auto", "kernel", "reference"] = Field(
        default="auto",
        description="What counts: the kernel, the reference library, or the kernel wherever it is provably exact.",
    )
    engine_options: dict[str, Any] = Field(
        default_factory=dict, description="The engine's settings about speed and memory."
    )
    batch_megabytes: float = Field(default=4.0, gt=0, le=1024, description="How much text is read at a time.")

    keep_pieces: int = Field(
        default=1_000_000,
        ge=0,
        description="Keep at most so many distinct pieces for each shard, from which the exact cost of a smaller "
        "vocabulary follows; 0 keeps none. The reference engine cuts no pieces and keeps none.",
    )
    sample_size: int = Field(default=64, ge=0, le=100_000, description="How many documents are kept, for verification.")
    shard_megabytes: float = Field(
        default=64.0,
        gt=0,
        le=65536,
        description="About how much uncompressed data is a shard, the unit of work and of commit.",
    )

    retries: int = Field(default=3, ge=1, le=100, description="How often a shard is tried before it is set aside.")
    strict: bool = Field(
        default=False, description="Stop at the first shard that fails for good; else the rest is counted."
    )
    allow_missing_shards: bool = Field(
        default=False, description="Shards and files that can't be read are reported, but are no failure."
    )
    stall_seconds: float = Field(
        default=900.0, gt=0, description="A worker without progress for so long is killed and its shard tried again."
    )

    @model_validator(mode="after")
    def _distinct(self) -> CorpusConfig:
        seen: set[str] = set()
        for dataset in self.datasets:
            name = dataset.source_name()
            if name in seen:
                raise ValueError(f"two datasets would be called {name!r} in the cache; name one of them with `source`")
            seen.add(name)
        return self

    @field_validator("part")
    @classmethod
    def _part(cls, value: str | None) -> str | None:
        if value is not None:
            index, count = (int(number) for number in value.split("/"))
            if not 0 <= index < count:
                raise ValueError(f"part {value!r}: parts are numbered from 0, so i/n needs i < n")
        return value

    def weights(self) -> dict[str, float]:
        """The weight of each source, by its name in the cache."""
        return {dataset.source_name(): dataset.weight for dataset in self.datasets}
