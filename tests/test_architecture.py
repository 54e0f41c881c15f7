"""The shape of the code, held in place: layers point one way, the public API is a list, starting up is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import trimbed

ROOT = Path(trimbed.__file__).resolve().parent
HEAVY = {
    "datasets", "duckdb", "fontTools", "gguf", "matplotlib", "multiprocess", "numpy", "pyarrow", "ray", "safetensors",
    "sentencepiece", "tokenizers", "torch", "transformers", "fsspec", "huggingface_hub",
}  # fmt: skip
EXTRAS = {"gguf", "matplotlib", "ray", "sentencepiece", "torch", "transformers", "s3fs", "tiktoken", "mistral_common"}
LAYERS = {"storage": 0, "counting": 1, "trimbed": 2}


def _folder(layer: str) -> Path:
    """A layer's folder, in an installed package or a checkout."""
    if layer == "trimbed":
        return ROOT
    return ROOT / layer if (ROOT / layer).is_dir() else ROOT.parent / layer


def _files(layer: str) -> list[Path]:
    inside = _folder(layer)
    return [
        path
        for path in sorted(inside.rglob("*.py"))
        if layer != "trimbed" or path.relative_to(inside).parts[0] not in ("counting", "storage")
    ]


def _imports(path: Path, *, module_level: bool) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
        for child in ast.iter_child_nodes(node):
            if module_level and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
                continue
            visit(child)

    visit(tree)
    return found


def _layer_of(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "trimbed":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in ("counting", "storage") else "trimbed"


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_never_point_up_the_layers(layer: str) -> None:
    files = _files(layer)
    assert files
    wrong = [
        f"{path.name} imports {module}"
        for path in files
        for module in _imports(path, module_level=False)
        if (target := _layer_of(module)) is not None and LAYERS[target] > LAYERS[layer]
    ]
    assert not wrong


@pytest.mark.parametrize("layer", LAYERS)
def test_packages_of_extras_are_imported_only_where_they_are_used(layer: str) -> None:
    wrong = [
        f"{path.name} imports {module} at module level"
        for path in _files(layer)
        for module in _imports(path, module_level=True)
        if module.split(".")[0] in EXTRAS
    ]
    assert not wrong


@pytest.mark.parametrize("code", ["import trimbed", "from trimbed.cli.main import build_app; build_app()"])
def test_starting_up_loads_nothing_heavy(code: str) -> None:
    script = f"{code}\nimport sys\nprint(*sorted({HEAVY!r} & {{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_public_api_is_this_list_and_every_name_resolves() -> None:
    assert trimbed.__all__ == [
        "__version__",
        "CorpusCounter",
        "CorpusCounts",
        "CountsCache",
        "Selection",
        "SelectionConfig",
        "TokenizerSpec",
        "TrimbedConfig",
        "TrimbedError",
        "load_config",
        "select_tokens",
        "sweep",
        "trim",
    ]
    for name in trimbed.__all__:
        assert getattr(trimbed, name) is not None


def test_no_file_holds_more_than_one_idea_worth_of_lines() -> None:
    long = {
        path.name: lines
        for layer in LAYERS
        for path in [*_files(layer), *_folder(layer).rglob("*.cpp"), *_folder(layer).rglob("*.hpp")]
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert not long


def test_every_module_says_first_what_it_is() -> None:
    silent = [
        str(path)
        for layer in LAYERS
        for path in _files(layer)
        if path.read_text(encoding="utf-8").strip()
        and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent
