"""One face for weights in safetensors and in PyTorch's own files, so that the rest needn't know which they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from trimbed.trimming.checkpoint import CheckpointPlan, TensorChange, plan_checkpoint, write_checkpoint
from trimbed.trimming.config import TrimConfig
from trimbed.trimming.renumbering import Renumbering
from trimbed.trimming.report import RowCheck
from trimbed.trimming.row_check import check_rows
from trimbed.trimming.weight_files import SafetensorsCheckpoint, Weights

__all__ = ["WeightPlan", "plan_weights"]


class WeightPlan(Protocol):
    """Weights whose trim is settled; ``write`` and ``check`` carry it out and prove it."""

    changes: list[TensorChange]
    warnings: list[str]
    untie: bool
    table_rows: list[int]
    bytes_before: int
    bytes_after: int
    parameters_before: int
    parameters_after: int

    @property
    def bytes_to_write(self) -> int:
        """Bytes of the files in ``rewritten``."""

    @property
    def rewritten(self) -> list[tuple[Path, int]]:
        """Files that ``write`` makes anew, the index among them, with the (approximate) size of the result."""

    @property
    def unchanged(self) -> list[Path]:
        """Weight files without vocabulary tensors."""

    def write(self, folder: Path) -> None: ...

    def check(self, folder: Path) -> RowCheck: ...


class SafetensorsPlan:
    """Weights in safetensors files."""

    def __init__(
        self, checkpoint: SafetensorsCheckpoint, plan: CheckpointPlan, ids: Renumbering, config: TrimConfig
    ) -> None:
        self._checkpoint = checkpoint
        self._plan = plan
        self._ids = ids
        self._config = config
        self.changes = plan.changes
        self.warnings = plan.warnings
        self.untie = plan.ties.untie
        self.table_rows = plan.table_rows
        self.bytes_before = plan.bytes_before
        self.bytes_after = plan.bytes_after
        self.parameters_before = plan.parameters_before
        self.parameters_after = plan.parameters_after
        self._names = {tensor.name for tensor in plan.vocabulary}

    def _has_vocabulary(self, file: str) -> bool:
        return any(name in self._names for name in self._checkpoint.files[file].tensors)

    @property
    def bytes_to_write(self) -> int:
        return sum(size for _, size in self.rewritten)

    @property
    def rewritten(self) -> list[tuple[Path, int]]:
        found = []
        for path in self._checkpoint.weights.files:
            if self._has_vocabulary(path.name):
                tensors = self._checkpoint.files[path.name].tensors
                saved = sum(c.bytes_before - c.bytes_after for c in self.changes if c.name in tensors)
                found.append((path, self._checkpoint.files[path.name].size - saved))
        if self._checkpoint.weights.index is not None:
            found.append((self._checkpoint.weights.index, self._checkpoint.weights.index.stat().st_size))
        return found

    @property
    def unchanged(self) -> list[Path]:
        return [path for path in self._checkpoint.weights.files if not self._has_vocabulary(path.name)]

    def write(self, folder: Path) -> None:
        write_checkpoint(self._checkpoint, self._plan, self._ids, folder, self._config)

    def check(self, folder: Path) -> RowCheck:
        return check_rows(self._checkpoint, self._plan, self._ids, folder, self._config)


@contextmanager
def plan_weights(
    weights: Weights, model_config: Mapping[str, Any], ids: Renumbering, config: TrimConfig
) -> Iterator[WeightPlan]:
    """Open and settle the weights of a model folder; files are closed when the block ends."""
    if weights.kind == "bin":
        from trimbed.trimming.torch_files import plan_torch_files

        yield plan_torch_files(weights, model_config, ids, config)
        return
    with SafetensorsCheckpoint(weights) as checkpoint:
        yield SafetensorsPlan(checkpoint, plan_checkpoint(checkpoint, model_config, ids, config), ids, config)
