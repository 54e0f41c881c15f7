"""Files that are cut short, made up or not what their name says: one clear error each, in bounded memory."""

from __future__ import annotations

import random
import resource
import struct
import subprocess
import sys
from pathlib import Path

import made
import pytest
from gguf_writing import write_byte_level, write_sentencepiece
from sources import HERE, unpack

from trimbed.errors import TokenizerError
from trimbed.tokenizer.charsmap import charsmap_entries
from trimbed.tokenizer.gguf_metadata import read_metadata, read_tensor_shapes
from trimbed.tokenizer.spec import TokenizerSpec


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def gguf(pairs: bytes, count: int, *, version: int = 3, tensors: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, count) + pairs


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"not a model", b"\x0a\xff\xff\xff\xff\x0f", random.Random(1).randbytes(5000), b"\0" * 100],
)
def test_a_model_that_is_none_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tokenizer\.model"):
        TokenizerSpec.load(tmp_path)


def test_a_model_cut_short_within_its_pieces_or_settings_is_refused(tmp_path: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2 as schema

    whole = unpack(HERE / "bpe_symbols.model.xz").read_bytes()
    model = schema.ModelProto()
    model.ParseFromString(whole)
    between_pieces = len(schema.ModelProto(pieces=model.pieces[:40]).SerializeToString())
    path = tmp_path / "tokenizer.model"
    for length in [between_pieces, *range(1, len(whole) * 9 // 10, len(whole) // 40)]:
        path.write_bytes(whole[:length])
        with pytest.raises(TokenizerError):
            TokenizerSpec.load(path)


def test_a_gguf_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    path = write_byte_level(tmp_path / "whole.gguf", made.tiny("bpe"), pre="gpt-2")
    whole = path.read_bytes()
    assert TokenizerSpec.load(path).algorithm == "bpe"
    cut = tmp_path / "cut.gguf"
    for length in [*range(30), *range(30, len(whole), len(whole) // 60)]:
        cut.write_bytes(whole[:length])
        with pytest.raises(TokenizerError):
            TokenizerSpec.load(cut)


HUGE = 1 << 31
CLAIMS = {
    "a string of 2 GB": gguf(string(b"k") + struct.pack("<IQ", 8, HUGE) + b"x", 1),
    "a key of 2 GB": gguf(struct.pack("<Q", HUGE) + b"x", 1),
    "an array of 2 G numbers": gguf(string(b"k") + struct.pack("<IIQ", 9, 4, HUGE) + b"x", 1),
    "an array of 2 G strings": gguf(string(b"k") + struct.pack("<IIQ", 9, 8, HUGE) + b"x", 1),
    "an array of 2^60 bytes": gguf(string(b"k") + struct.pack("<IIQ", 9, 0, 1 << 60) + b"x", 1),
    "an array of arrays": gguf(string(b"k") + struct.pack("<IIQ", 9, 9, 1) + b"x" * 20, 1),
    "2^60 pairs": gguf(b"", 1 << 60),
    "an unknown type": gguf(string(b"k") + struct.pack("<I", 77), 1),
    "an unknown version": gguf(b"", 0, version=99),
    "a tensor with 2^31 dimensions": gguf(string(b"t") + struct.pack("<I", HUGE), 0, tensors=1),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_claims_larger_than_the_file_are_refused(claim: str, tmp_path: Path) -> None:
    path = tmp_path / "claims.gguf"
    path.write_bytes(CLAIMS[claim])
    read = read_tensor_shapes if "tensor" in claim else read_metadata
    with pytest.raises(TokenizerError, match=r"claims\.gguf"):
        read(path)


def test_huge_claims_are_refused_within_bounded_memory(tmp_path: Path) -> None:
    """A 3 GB file of holes, whose header claims 2 GB arrays and strings, read with 1.5 GB of address space."""
    for name in ("a string of 2 GB", "a key of 2 GB", "2^60 pairs"):
        path = tmp_path / "sparse.gguf"
        path.write_bytes(CLAIMS[name])
        with path.open("r+b") as file:
            file.truncate(3 << 30)
        code = (
            "import sys; from trimbed.errors import TokenizerError\n"
            "from trimbed.tokenizer.gguf_metadata import read_metadata; from pathlib import Path\n"
            "try: read_metadata(Path(sys.argv[1]))\n"
            "except TokenizerError as error: print('refused', error)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)],
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29)),
            env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert done.stdout.startswith("refused"), done.stderr[-500:]


def test_ggufs_that_hold_something_else_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf(b"", 0))
    with pytest.raises(TokenizerError, match="holds no tokenizer"):
        TokenizerSpec.load(path)
    write_byte_level(path, made.tiny("bpe"), pre="never heard of")
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.pre is 'never heard of'"):
        TokenizerSpec.load(path)


def test_random_damage_to_a_gguf_never_escapes_as_another_error(tmp_path: Path) -> None:
    whole = write_sentencepiece(tmp_path / "whole.gguf", unpack(HERE / "bpe_symbols.model.xz")).read_bytes()
    rng = random.Random(6)
    path = tmp_path / "damaged.gguf"
    refused = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            TokenizerSpec.load(path)
        except TokenizerError:
            refused += 1
    assert refused


def test_random_damage_to_a_normalization_map_ends(tmp_path: Path) -> None:
    from sentencepiece import sentencepiece_model_pb2 as schema

    model = schema.ModelProto()
    model.ParseFromString(unpack(HERE / "unigram.model.xz").read_bytes())
    blob = model.normalizer_spec.precompiled_charsmap
    assert len(charsmap_entries(blob)) > 200_000
    for content in (b"", b"\x01", blob[:1000], struct.pack("<I", 8) + b"\xff" * 8, struct.pack("<I", HUGE) + b"x"):
        with pytest.raises(TokenizerError, match="normalization map"):
            charsmap_entries(content)


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"vocab": [], "config": {"pattern": "x"}}', b"\xff\xfe{"])
def test_a_json_that_is_no_tokenizer_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tekken.json").write_bytes(content)
    with pytest.raises(TokenizerError, match=r"tekken\.json"):
        TokenizerSpec.load(tmp_path)


def test_a_vocab_txt_that_is_none_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"just\nwords\n", b"\xff\xfe\x00", b"a\n##b\n"):
        (tmp_path / "vocab.txt").write_bytes(content)
        with pytest.raises(TokenizerError, match=r"vocab\.txt"):
            TokenizerSpec.load(tmp_path)
