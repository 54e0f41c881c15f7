"""Decides which tensors of a checkpoint carry the vocabulary, from names, shapes and the config. Reads no data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimbed.errors import TrimError
from trimbed.trimming.model_config import find_sizes

__all__ = ["TensorShape", "VocabularyTensor", "find_vocabulary_tensors"]


@dataclass(frozen=True)
class TensorShape:
    """What there is to know of a tensor without its data."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class VocabularyTensor:
    """A tensor with a row (or, for ``axis`` 1, an element) for each token, and why we think so.

    ``role``: input, output, bias or per_layer. ``rows``: how many tokens it has room for.
    """

    name: str
    role: str
    rows: int
    axis: int
    reason: str


# Names that model code gives to its tables, by the end of the tensor's name. Position and type tables have other names.
_INPUT = re.compile(
    r"(^|\.)(embed_tokens|tok_embeddings|word_embeddings|word_embedding|wte|shared|embed_in|token_embedding"
    r"|token_embd|encoder_embed_tokens|decoder_embed_tokens)\.weight$"
)
_OUTPUT = re.compile(
    r"(^|\.)(lm_head|embed_out|output_projection|vocab_projector|proj_out|lm_head\.decoder"
    r"|predictions\.decoder|generator_lm_head|lm_loss)\.weight$"
)
# Names that mean the head only in some models: they count where their shape has the vocabulary's rows.
_MAYBE = re.compile(r"(^|\.)(decoder|output|head|cls|embeddings|embedding|classifier)\.weight$|^(embeddings)$")
_BIAS = re.compile(
    r"(^|\.)(lm_head\.bias|final_logits_bias|predictions\.bias|predictions\.decoder\.bias|lm_head\.decoder\.bias"
    r"|vocab_projector\.bias|embed_out\.bias|generator_lm_head\.bias|lm_loss\.bias|proj_out\.bias)$"
)
_MAYBE_BIAS = re.compile(r"(^|\.)(decoder|output|head)\.bias$")
_PER_LAYER = re.compile(r"(^|\.)embed_tokens_per_layer\.weight$")
_CODEBOOKS = re.compile(
    r"(^|\.)(embed_tokens|lm_heads?|codec_heads?|codebooks?_heads?|audio_embeddings)\.\d+\.(weight|bias)$"
)
_QUANTISED = re.compile(r"\.(qweight|qzeros|g_idx|weight_packed|absmax|quant_map|quant_state\S*|SCB|weight_scale_inv)$")
_NUMBERED = re.compile(r"\.\d+\.")
_NOT_TOKENS = re.compile(r"position|token_type|relative|rotary|(^|\.)wpe\.|type_embeddings|norm|inv_freq|langs")
_PACKED = ("F4", "F6_E2M3", "F6_E3M2")


def find_vocabulary_tensors(
    tensors: Sequence[TensorShape],
    config: Mapping[str, Any],
    tokenizer_size: int,
    *,
    overrides: Mapping[str, str] | None = None,
) -> list[VocabularyTensor]:
    """Every tensor of a checkpoint that has a row for each token, in the order given.

    ``tokenizer_size`` is the tokenizer's largest id + 1. ``overrides`` (tensor name -> role, or ``none``) win over
    names.

    Raises TrimError, never guessing: for tensors with the vocabulary's rows but unknown names (listed as candidates),
    for several codebooks, packed or block-scaled quantisation of a table, and where no table is found.
    """
    given = dict(overrides or {})
    known = {tensor.name for tensor in tensors}
    for name in given:
        if name not in known:
            near = [other for other in known if other.endswith(name.split(".")[-1])]
            raise TrimError(f"tensors: there is no tensor {name!r} in the checkpoint; similar: {sorted(near)[:6]}")
    _refuse_codebooks(tensors, config, given)
    sizes = {size for size in find_sizes(config).values() if size > 1} | {tokenizer_size}
    found: list[VocabularyTensor] = []
    for tensor in tensors:
        role = given.get(tensor.name) or _role_by_name(tensor)
        if role is None or role == "none":
            continue
        found.append(_as_vocabulary(tensor, role, "named in tensors:" if tensor.name in given else "by its name"))
    sizes |= {tensor.rows for tensor in found if tensor.role in ("input", "output")}
    found = _companions(tensors, found, given)
    chosen = {tensor.name for tensor in found}
    candidates: list[TensorShape] = []
    others = _other_sizes(config)
    for tensor in tensors:
        if tensor.name in chosen or tensor.name in given or not _fits(tensor, sizes):
            continue
        role = _role_if_fitting(tensor)
        if role is not None:
            found.append(_as_vocabulary(tensor, role, "by its name and its rows"))
        elif not _NOT_TOKENS.search(tensor.name) and not _is_chance(tensor, sizes, others):
            candidates.append(tensor)
    if candidates:
        lines = "\n".join(f"  {t.name}: {t.dtype} {list(t.shape)}" for t in candidates)
        raise TrimError(
            f"these tensors have as many rows as the vocabulary, but names that don't say what they are:\n{lines}\n"
            "Say so under trim.tensors, each as input, output, bias, per_layer or none"
        )
    if not any(tensor.role == "input" for tensor in found):
        raise TrimError(
            f"no table of input embeddings found among {len(tensors)} tensors; name it under trim.tensors, such as "
            "trim.tensors={'model.embed_tokens.weight': input}"
        )
    _check_sizes(found, tokenizer_size)
    order = {tensor.name: position for position, tensor in enumerate(tensors)}
    return sorted(found, key=lambda tensor: order[tensor.name])


def _role_by_name(tensor: TensorShape) -> str | None:
    if _PER_LAYER.search(tensor.name):
        return "per_layer"
    if _BIAS.search(tensor.name):
        return "bias"
    if len(tensor.shape) != 2:
        if _INPUT.search(tensor.name) or _OUTPUT.search(tensor.name):
            raise TrimError(
                f"tensor {tensor.name!r} has the shape {list(tensor.shape)} ({tensor.dtype}); a table with a row for "
                "each token has two dimensions. Packed weights can't be cut by rows: trim the unquantised checkpoint"
            )
        return None
    if _INPUT.search(tensor.name):
        return "input"
    if _OUTPUT.search(tensor.name):
        return "output"
    return None


def _role_if_fitting(tensor: TensorShape) -> str | None:
    if _MAYBE_BIAS.search(tensor.name) and len(tensor.shape) == 1:
        return "bias"
    if tensor.name in ("bias", "cls.bias") and len(tensor.shape) == 1:
        return "bias"
    match = _MAYBE.search(tensor.name)
    if match and len(tensor.shape) == 2 and not _NUMBERED.search(tensor.name):
        return "input" if (match.group(2) or match.group(3)).startswith("embedding") else "output"
    return None


def _fits(tensor: TensorShape, sizes: set[int]) -> bool:
    return any(size in sizes for size in tensor.shape[:2])


def _is_chance(tensor: TensorShape, sizes: set[int], others: set[int]) -> bool:
    """Inside numbered layers, or where all fitting sizes are also sizes of something else, rows say nothing."""
    fitting = {size for size in tensor.shape[:2] if size in sizes}
    return bool(_NUMBERED.search(tensor.name)) and fitting <= others


def _other_sizes(config: Mapping[str, Any]) -> set[int]:
    """Every number in the configuration that isn't a vocabulary size, and small multiples that projections have."""
    found: set[int] = set()
    for key, value in config.items():
        if isinstance(value, Mapping):
            found |= _other_sizes(value)
        elif isinstance(value, int) and not isinstance(value, bool) and "vocab" not in key and value > 1:
            found |= {value, 2 * value, 3 * value, 4 * value}
    return found


def _as_vocabulary(tensor: TensorShape, role: str, reason: str) -> VocabularyTensor:
    if tensor.dtype in _PACKED:
        raise TrimError(
            f"tensor {tensor.name!r} is packed ({tensor.dtype}): several values share a byte and blocks share a scale, "
            "so rows can't be taken out. Trim the unquantised checkpoint and quantise the result"
        )
    axis = 0
    if role == "bias" and len(tensor.shape) == 2 and tensor.shape[0] == 1:
        axis = 1  # final_logits_bias is [1, V]
    if not tensor.shape:
        raise TrimError(f"tensor {tensor.name!r} is a single number; it can't have a row for each token")
    return VocabularyTensor(tensor.name, role, tensor.shape[axis], axis, reason)


def _companions(
    tensors: Sequence[TensorShape], found: Sequence[VocabularyTensor], given: Mapping[str, str]
) -> list[VocabularyTensor]:
    """Scales of a quantised table: one a row follows its rows, one for all stays, anything else can't be cut."""
    result = list(found)
    stems = {tensor.name.removesuffix(".weight"): tensor for tensor in found if tensor.name.endswith(".weight")}
    for tensor in tensors:
        stem, _, ending = tensor.name.rpartition(".")
        base = stem if stem in stems else stem.removesuffix(".weight")
        packed = _QUANTISED.search(tensor.name)
        if packed and base not in stems and tensor.name not in given:
            whole = f"{tensor.name[: packed.start()].removesuffix('.weight')}.weight"
            if _INPUT.search(whole) or _OUTPUT.search(whole):
                raise _quantised(whole, tensor.name)
        if base not in stems or tensor.name in given or tensor.name == f"{base}.weight" or ending == "bias":
            continue
        table = stems[base]
        if packed:
            raise _quantised(table.name, tensor.name)
        if "scale" in ending and tensor.shape and tensor.shape[0] == table.rows and table.rows > 1:
            result.append(
                VocabularyTensor(tensor.name, "scale", table.rows, 0, f"a scale for each row of {table.name}")
            )
    return result


def _quantised(table: str, companion: str) -> TrimError:
    return TrimError(
        f"the table {table!r} is quantised in blocks or packed (it comes with {companion!r}); its rows can't be taken "
        "out. Trim the unquantised checkpoint and quantise the result"
    )


def _refuse_codebooks(tensors: Sequence[TensorShape], config: Mapping[str, Any], given: Mapping[str, str]) -> None:
    several = [t.name for t in tensors if _CODEBOOKS.search(t.name) and t.name not in given]
    if several:
        raise TrimError(
            f"the checkpoint has a table for each of several codebooks ({', '.join(several[:4])}); a text vocabulary "
            "doesn't map onto them. If only one of its tables is the text's, name it under trim.tensors and the others "
            "as none"
        )


def _check_sizes(found: Sequence[VocabularyTensor], tokenizer_size: int) -> None:
    """Tables of one vocabulary have the same rows; a size that has nothing to do with the tokenizer is an error."""
    main = sorted({tensor.rows for tensor in found if tensor.role in ("input", "output")})
    listed = "\n".join(f"  {t.name}: {t.role}, {t.rows} rows" for t in found)
    if len(main) > 1:
        raise TrimError(
            f"the vocabulary's tables have different numbers of rows ({', '.join(map(str, main))}):\n{listed}\n"
            "Name under trim.tensors those that belong to this tokenizer, the others as none"
        )
    rows = main[0]
    if rows < tokenizer_size * 0.9:
        raise TrimError(
            f"the embedding table has {rows} rows, the tokenizer {tokenizer_size} ids; they don't belong together:\n"
            f"{listed}"
        )
    for tensor in found:
        if tensor.role == "bias" and tensor.rows != rows:
            raise TrimError(
                f"the head's bias {tensor.name!r} has {tensor.rows} elements, its table {rows} rows:\n{listed}"
            )
