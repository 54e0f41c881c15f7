"""Time and peak memory of cutting a checkpoint: by rows, by loading the whole model, and of merely copying it.

    python benchmarks/trimming.py run --gigabytes 2 --output results.jsonl     # measure, each way in a fresh process
    python benchmarks/trimming.py show results.jsonl                           # medians and ratios

``load`` does what tools do that go through transformers: load the model, gather rows, put in smaller modules, save.
It needs the model extra; without it, or with ``--ways rows copy``, only the others run. The same command compares the
two results row by row. Files are real (random bytes, no holes), sharded at 1 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY, HIDDEN, INNER, SHARD = 128_000, 1024, 2816, 1_000_000_000
KEPT_EVERY = 4


def make_checkpoint(folder: Path, gigabytes: float) -> None:
    """A Llama with random half-precision weights, as many layers as the size allows, and a WordLevel tokenizer."""
    from trimbed.trimming.safetensors_file import encode_header

    folder.mkdir(parents=True)
    square, wide, tall = (HIDDEN, HIDDEN), (INNER, HIDDEN), (HIDDEN, INNER)
    layer = {f"self_attn.{name}_proj.weight": square for name in "qkvo"}
    layer |= {"mlp.gate_proj.weight": wide, "mlp.up_proj.weight": wide, "mlp.down_proj.weight": tall}
    layer |= {"input_layernorm.weight": (HIDDEN,), "post_attention_layernorm.weight": (HIDDEN,)}
    size = sum(2 * int(np.prod(shape)) for shape in layer.values())
    layers = max(1, int((gigabytes * 1e9 - 4 * VOCABULARY * HIDDEN) / size))
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for number in range(layers):
        shapes |= {f"model.layers.{number}.{name}": shape for name, shape in layer.items()}
    shapes |= {"model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}
    shards: list[dict[str, tuple[int, ...]]] = [{}]
    for name, shape in shapes.items():
        if sum(2 * int(np.prod(s)) for s in shards[-1].values()) > SHARD:
            shards.append({})
        shards[-1][name] = shape
    rng = np.random.default_rng(0)
    weight_map = {}
    for index, shard in enumerate(shards, 1):
        file = f"model-{index:05}-of-{len(shards):05}.safetensors"
        weight_map |= dict.fromkeys(shard, file)
        with (folder / file).open("wb") as out:
            out.write(encode_header({n: ("F16", s, 2 * int(np.prod(s))) for n, s in shard.items()}, {"format": "pt"}))
            for shape in shard.values():
                out.write(rng.integers(0, 0x3BFF, int(np.prod(shape)), dtype=np.uint16).tobytes())
    total = sum(2 * int(np.prod(shape)) for shape in shapes.values())
    index_file = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index_file))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": layers,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        "pad_token_id": None,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {f"w{number}": number for number in range(VOCABULARY)}
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))


def kept() -> np.ndarray:
    return np.arange(0, VOCABULARY, KEPT_EVERY)


def by_rows(source: Path, target: Path) -> None:
    from trimbed.tokenizer.spec import TokenizerSpec
    from trimbed.trimming.config import TrimConfig
    from trimbed.trimming.trim import trim

    trim(TokenizerSpec.load(source), kept(), target, config=TrimConfig(verify_model="never"))


def by_loading(source: Path, target: Path) -> None:
    import torch
    import transformers

    model = transformers.LlamaForCausalLM.from_pretrained(source, dtype=torch.float16)
    rows = torch.from_numpy(kept())
    for owner, name in ((model.model, "embed_tokens"), (model, "lm_head")):
        module = getattr(owner, name)
        module.weight = torch.nn.Parameter(module.weight.data.index_select(0, rows).clone(), requires_grad=False)
    model.config.vocab_size = len(rows)
    model.save_pretrained(target, max_shard_size="1GB")


def by_copying(source: Path, target: Path) -> None:
    target.mkdir()
    for file in source.iterdir():
        with file.open("rb") as one, (target / file.name).open("wb") as two:
            shutil.copyfileobj(one, two, 8 << 20)
            two.flush()
            os.fsync(two.fileno())


WAYS = {"rows": by_rows, "load": by_loading, "copy": by_copying}


def measure(way: str, source: Path, target: Path) -> dict[str, Any]:
    """Run one way in this (fresh) process."""
    started = time.perf_counter()
    WAYS[way](source, target)
    return {
        "way": way,
        "seconds": time.perf_counter() - started,
        "peak_bytes": peak_bytes(),
    }


def peak_bytes() -> int:
    """This process' largest resident size. getrusage's also counts the parent's, from before exec."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def same_rows(one: Path, two: Path) -> bool:
    """Whether both results hold the same vocabulary rows."""
    from trimbed.trimming.weight_files import SafetensorsCheckpoint, find_weights

    with SafetensorsCheckpoint(find_weights(one)) as a, SafetensorsCheckpoint(find_weights(two)) as b:
        names = ("model.embed_tokens.weight", "lm_head.weight")
        return all(np.array_equal(a.file(n).rows(a.info(n)), b.file(n).rows(b.info(n))) for n in names)


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def run(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        make_checkpoint(folder / "source", arguments.gigabytes)
        source_bytes = sum(file.stat().st_size for file in (folder / "source").iterdir())
        for round_number in range(arguments.rounds):
            for way in arguments.ways:
                shutil.rmtree(folder / way, ignore_errors=True)
                os.sync()
                command = [sys.executable, __file__, "measure", way, str(folder / "source"), str(folder / way)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(f"{way} failed:\n{done.stderr}")
                record = json.loads(done.stdout.splitlines()[-1])
                record |= {"round": round_number, "bytes": source_bytes, "commit": commit()}
                record |= {"machine": platform.machine(), "cpus": os.cpu_count(), "python": platform.python_version()}
                if way == "load" and (folder / "rows").exists():
                    record["equal"] = same_rows(folder / "rows", folder / "load")
                    if not record["equal"]:
                        raise SystemExit("the two ways gave different rows")
                with arguments.output.open("a") as out:
                    out.write(json.dumps(record) + "\n")
                print(json.dumps(record), file=sys.stderr)


def show(arguments: argparse.Namespace) -> None:
    records = [json.loads(line) for line in arguments.results.read_text().splitlines()]
    print("| way | GB | seconds (median) | MB/s | peak memory MB |\n|---|---:|---:|---:|---:|")
    for way in WAYS:
        found = [record for record in records if record["way"] == way]
        if found:
            seconds = statistics.median(record["seconds"] for record in found)
            peak = statistics.median(record["peak_bytes"] for record in found)
            size = found[0]["bytes"]
            print(f"| {way} | {size / 1e9:.1f} | {seconds:.1f} | {size / 1e6 / seconds:.0f} | {peak / 1e6:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--gigabytes", type=float, default=2.0)
    one.add_argument("--rounds", type=int, default=3)
    one.add_argument("--ways", nargs="+", choices=list(WAYS), default=["copy", "rows", "load"])
    one.add_argument("--folder", type=Path, default=None, help="where to work; needs three times the size")
    one.add_argument("--output", type=Path, default=Path("trimming.jsonl"))
    one.set_defaults(call=run)
    two = commands.add_parser("measure")
    two.add_argument("way", choices=list(WAYS))
    two.add_argument("source", type=Path)
    two.add_argument("target", type=Path)
    two.set_defaults(call=lambda a: print(json.dumps(measure(a.way, a.source, a.target))))
    three = commands.add_parser("show")
    three.add_argument("results", type=Path)
    three.set_defaults(call=show)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
