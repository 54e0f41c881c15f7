"""Puts a folder in place whole or not at all. Knows nothing of what is in it.

Everything is written into a sibling of the target. Only when that is complete is it renamed; with ``overwrite`` the old
folder is renamed aside first and deleted last, so that at every moment one whole folder exists.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trimbed.errors import TrimError, UsageError

__all__ = ["check_disk_space", "check_target", "new_folder"]

# A folder without any of these may be anything, somebody's home included; it isn't ours to delete.
_SIGNS = ("trim_report.json", "tokenizer.json", "config.json", "modules.json", "tokenizer_config.json")


def check_target(output: Path, *, overwrite: bool, sources: tuple[Path, ...] = ()) -> Path:
    """The resolved target. Raises UsageError, before anything is done, where it can't or mustn't be written."""
    target = Path(os.path.realpath(output.expanduser()))
    _recover(target)
    for source in sources:
        real = Path(os.path.realpath(source))
        if target == real or target.is_relative_to(real) or real.is_relative_to(target):
            raise UsageError(f"the output {output} and the source {source} lie in each other; choose another output")
    if target.exists():
        if not target.is_dir():
            raise UsageError(f"{output} is a file; the output is a folder")
        if any(target.iterdir()):
            if not overwrite:
                raise UsageError(f"{output} exists and isn't empty; use --overwrite to replace it")
            if not any((target / sign).exists() for sign in _SIGNS):
                raise UsageError(f"{output} isn't a tokenizer's or a model's folder; it won't be overwritten")
    return target


def check_disk_space(target: Path, needed: int) -> None:
    """Raises TrimError where ``needed`` bytes don't fit beside ``target``."""
    place = target.parent
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < needed:
        raise TrimError(
            f"the result needs about {needed:,} bytes on {place}, and {free:,} are free; nothing was written. With "
            "overwrite the old folder stays until the new one is in place"
        )


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside ``target`` to write into; it takes the target's place when the block ends well.

    When it ends with an error or an interruption, the folder is deleted and the target is as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    tag = uuid.uuid4().hex[:8]
    folder = target.parent / f".{target.name}.trimbed-new-{tag}"
    folder.mkdir()
    try:
        yield folder
        _sync(folder)
        _put_in_place(folder, target, tag)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _put_in_place(folder: Path, target: Path, tag: str) -> None:
    aside = target.parent / f".{target.name}.trimbed-old-{tag}"
    replacing = target.exists()
    if replacing:
        target.rename(aside)
    try:
        folder.rename(target)
    except BaseException:
        if replacing:
            aside.rename(target)
        raise
    _sync(target.parent)
    if replacing:
        shutil.rmtree(aside, ignore_errors=True)


def _recover(target: Path) -> None:
    """A process killed between the two renames left the old folder aside: put it back."""
    if target.exists() or not target.parent.is_dir():
        return
    left = sorted(target.parent.glob(f".{target.name}.trimbed-old-*"))
    if left:
        left[-1].rename(target)


def _sync(folder: Path) -> None:
    """Make the folder's entries durable, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
