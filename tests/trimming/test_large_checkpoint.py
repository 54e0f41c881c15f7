"""A checkpoint larger than memory should be trims in bounded memory. Slow suite: it writes some gigabytes."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from trimming_cases import words

from trimbed.trimming.safetensors_file import SafetensorsFile

pytestmark = pytest.mark.slow

VOCABULARY, WIDTH, SHARDS = 64_000, 4096, 8
GIGABYTE = 1_000_000_000


def sparse_shard(path: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    """float32 tensors of zeros that take no disk space, but whose tables have their row number in front."""
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        start = out.tell()
        out.truncate(start + at)
        for name, shape in tensors.items():
            if shape == (VOCABULARY, WIDTH):
                for row in range(0, VOCABULARY, 1000):
                    out.seek(start + header[name]["data_offsets"][0] + row * WIDTH * 4)
                    out.write(np.float32(row).tobytes())


def test_an_8_gigabyte_checkpoint_takes_less_than_a_gigabyte_of_memory(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "tokenizer.json").write_text(json.dumps(words(VOCABULARY)))
    (source / "config.json").write_text(json.dumps({"vocab_size": VOCABULARY, "tie_word_embeddings": False}))
    weight_map = {}
    for number in range(SHARDS):
        name = f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        table = {0: "model.embed_tokens.weight", SHARDS - 1: "lm_head.weight"}.get(number)
        tensors = {table: (VOCABULARY, WIDTH)} if table else {f"model.layers.{number}.w.weight": (250_001, 1000)}
        sparse_shard(source / name, tensors)
        weight_map |= dict.fromkeys(tensors, name)
    index = {"metadata": {"total_size": 8 * GIGABYTE}, "weight_map": weight_map}
    (source / "model.safetensors.index.json").write_text(json.dumps(index))
    assert sum(file.stat().st_size for file in source.iterdir()) > 8 * GIGABYTE
    code = (
        "import sys, numpy as np\n"
        "from pathlib import Path\n"
        "from trimbed.tokenizer.spec import TokenizerSpec\n"
        "from trimbed.trimming.config import TrimConfig\n"
        "from trimbed.trimming.trim import trim\n"
        "config = TrimConfig(verify_model='never', rest='hardlink')\n"
        f"kept = np.union1d(np.arange(0, {VOCABULARY}, 2), np.arange(0, {VOCABULARY}, 1000))\n"
        "trim(TokenizerSpec.load(sys.argv[1]), kept, sys.argv[2], config=config)\n"
        "status = Path('/proc/self/status').read_text()\n"
        "print(next(line.split()[1] for line in status.splitlines() if line.startswith('VmHWM')))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(source), str(tmp_path / "out")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) * 1024 < GIGABYTE
    with SafetensorsFile(tmp_path / "out" / f"model-{SHARDS:05}-of-{SHARDS:05}.safetensors") as file:
        rows = file.rows(file.tensors["lm_head.weight"])
        assert rows.shape == (VOCABULARY // 2, WIDTH * 4)
        assert rows[500].view(np.float32)[0] == 1000
        del rows
