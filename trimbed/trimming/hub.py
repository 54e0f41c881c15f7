"""Brings a whole checkpoint of the Hub onto this disk, so that it can be trimmed like a local one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trimbed.errors import TrimError, UsageError
from trimbed.trimming.weight_files import find_model_folder

if TYPE_CHECKING:
    from trimbed.tokenizer.spec import TokenizerSpec

__all__ = ["load_checkpoint"]

# Formats that a trim leaves out anyway; they can be as large as the rest together.
_IGNORED = [
    "*.h5",
    "*.msgpack",
    "*.ot",
    "*.onnx",
    "*.onnx_data",
    "*.tflite",
    "*.gguf",
    "openvino/*",
    "onnx/*",
    "coreml/*",
]


def load_checkpoint(model: str, *, revision: str | None = None) -> TokenizerSpec:
    """The tokenizer of a local folder or file, or of a Hub checkpoint whose files are all fetched into the Hub's cache.

    The spec's ``source`` and ``revision`` stay those of the Hub (the revision as the commit that was fetched).
    Raises TrimError where the Hub can't be reached or has no such checkpoint.
    """
    from trimbed.tokenizer.spec import TokenizerSpec

    if Path(model).expanduser().exists():
        if revision is not None:
            raise UsageError(f"{model} is on this disk and has no revisions; drop --revision")
        return TokenizerSpec.load(_with_tokenizer(Path(model).expanduser()))
    if model.count("/") > 1 or model.startswith((".", "/", "~")):
        raise UsageError(f"there is no folder or file {model}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, revision=revision, ignore_patterns=_IGNORED))
    except HFValidationError as error:
        raise UsageError(f"{model!r} is neither on this disk nor a Hub id: {error}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise TrimError(f"{model!r} isn't on this disk, and the Hub didn't give it: {error}") from None
    spec = TokenizerSpec.load(_with_tokenizer(folder))
    spec.source = model
    spec.revision = folder.name if folder.parent.name == "snapshots" else revision
    return spec


def _with_tokenizer(path: Path) -> Path:
    """The folder of the transformer module where a sentence-transformers folder keeps its tokenizer there."""
    if not (path / "modules.json").is_file() or (path / "tokenizer.json").is_file():
        return path
    return find_model_folder(path)
