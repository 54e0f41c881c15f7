"""The reference engine where the library itself fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import made
import pyarrow as pa
import pytest

from trimbed.counting.engine import EngineRecipe, load_engine
from trimbed.counting.reference import ReferenceEngine
from trimbed.errors import TokenizerError


class Panic(BaseException):
    """As the library's: no Exception."""


class Panicking:
    """A library's tokenizer that panics at one text."""

    def encode(self, text: str, *, add_special_tokens: bool) -> None:
        if text == "bad":
            raise Panic("index out of range")

    def encode_batch_fast(self, texts: list[str], *, add_special_tokens: bool) -> None:
        for text in texts:
            self.encode(text, add_special_tokens=add_special_tokens)


def test_a_panic_of_the_library_is_an_error_that_names_the_document() -> None:
    engine = load_engine(EngineRecipe("reference", json.dumps(made.tiny("bpe"))))
    assert isinstance(engine, ReferenceEngine)
    tally = engine.tally()
    tally._tokenizer = Panicking()
    with pytest.raises(TokenizerError, match="the document that begins 'bad': index out of range"):
        tally.add(pa.array(["good", "bad", "good"]))


LONG_DOCUMENTS = """
import re, sys
from pathlib import Path
import pyarrow as pa
import made
from trimbed.counting.engine import EngineRecipe, load_engine
tally = load_engine(EngineRecipe("reference", open(sys.argv[1], encoding="utf-8").read())).tally()
code = "".join(made.stdlib_texts(6_000_000))
for start in range(0, 6_000_000, 1_500_000):
    tally.add(pa.array([code[start : start + 1_500_000]]))
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
print(tally.finish().documents, peak)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc; malloc_trim is glibc's")
def test_long_documents_one_after_the_other_do_not_add_up_in_memory(deepseek_folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LONG_DOCUMENTS, str(deepseek_folder / "tokenizer.json")],
        capture_output=True,
        text=True,
        cwd=Path(made.__file__).parent,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    documents, kibibytes = map(int, done.stdout.split())
    assert documents == 4
    assert kibibytes < 600 * 1024
