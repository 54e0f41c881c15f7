"""What the documentation says is what happens: every command in it is run, every command and setting is in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import made  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "benchmarks").glob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
# What a fresh environment does: .ci/run runs these lines, and a test below holds it to that.
INSTALLS = re.compile(r"^(pip install|pytest|git clone|python -m venv|\. )")


def commands(text: str) -> Iterator[str]:
    """The lines after `$ ` in console blocks, continued lines joined."""
    for block in CONSOLE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                yield line[2:].strip()


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        "COLUMNS": "200",
    }
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every page starts from: the files that `trimbed demo` makes, of a small tokenizer and fewer texts."""
    folder = tmp_path_factory.mktemp("docs")
    demo = folder / "trimbed-demo"
    (demo / "tokenizer").mkdir(parents=True)
    (demo / "tokenizer" / "tokenizer.json").write_text(json.dumps(made.tiny("bpe")), encoding="utf-8")
    pq.write_table(
        pa.table({"text": made.stdlib_texts(12_000_000)}),
        demo / "corpus.parquet",
        compression="zstd",
        row_group_size=50,
    )
    cut = "--model trimbed-demo/tokenizer --cache trimbed-demo/counts"
    for command in (
        f"trimbed count {cut} corpus.shard_megabytes=4 corpus.datasets.0.path=trimbed-demo/corpus.parquet"
        " corpus.datasets.0.source=stdlib",
        f"trimbed trim {cut} --coverage 0.999 --output trimbed-demo/trimmed",
    ):
        done = run(command, folder)
        assert done.returncode == 0, done.stderr
    return folder


def test_the_demo_makes_what_the_pages_start_from(tmp_path: Path, demo_folder: Path) -> None:
    """The README's first command, as it is: a real tokenizer, all of the standard library."""
    done = run("trimbed demo", tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("corpus.parquet", "tokenizer/tokenizer.json", "counts/manifest.json", "trimmed/tokenizer.json"):
        assert (tmp_path / "trimbed-demo" / name).is_file(), name
        assert (demo_folder / "trimbed-demo" / name).is_file(), name
    assert "tokens kept" in done.stdout


def page_folder(demo_folder: Path, tmp_path: Path) -> Path:
    """A copy of the demo's folder with what pages refer to beside it."""
    folder = tmp_path / "page"
    shutil.copytree(demo_folder, folder)
    for name in ("configs", "benchmarks", "docs"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_page_runs(page: Path, demo_folder: Path, tmp_path: Path) -> None:
    todo = [
        part.strip()
        for command in commands(page.read_text(encoding="utf-8"))
        for part in command.split("&&")
        if not INSTALLS.match(part.strip())
    ]
    folder = page_folder(demo_folder, tmp_path)
    for command in todo:
        if command == "trimbed demo":
            continue  # a test above runs it; the fixture stands in for what it makes
        done = run(command, folder)
        assert done.returncode == 0, f"{page.name}: {command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if PYTHON.search(page.read_text(encoding="utf-8"))], ids=lambda page: page.name
)
def test_the_python_of_the_page_runs(page: Path, demo_folder: Path, tmp_path: Path) -> None:
    folder = page_folder(demo_folder, tmp_path)
    blocks = [f"    {line}" for block in PYTHON.findall(page.read_text(encoding="utf-8")) for line in block.split("\n")]
    # Behind a main guard, as users must write it too: worker processes import the script again.
    (folder / "page.py").write_text("\n".join(['if __name__ == "__main__":', *blocks]), encoding="utf-8")
    done = run(f"{sys.executable} page.py", folder)
    assert done.returncode == 0, done.stderr


def test_the_ci_script_runs_the_readmes_install_and_test_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    installs = [
        part.strip() for command in commands(readme) for part in command.split("&&") if INSTALLS.match(part.strip())
    ]
    assert installs
    for command in installs:
        assert re.sub(r"^pip install", "pip install -q", command) in script, command


def test_the_command_and_configuration_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "reference.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_option_and_every_setting_is_explained() -> None:
    unexplained = [
        f"{page}: {line}"
        for page in ("cli.md", "config.md")
        for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and line.rstrip(" |").endswith(("`", "| null", "|"))
    ]
    assert not unexplained


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
