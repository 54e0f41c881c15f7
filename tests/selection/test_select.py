"""Union, closure, cap, rounding, in that order, on every algorithm; requests are a floor (invariant 7)."""

from __future__ import annotations

from typing import Any

import made
import numpy as np
import pytest
from graphs import added_entry, bpe, count, frames, masks
from hypothesis import given
from hypothesis import strategies as st

from trimbed.errors import SelectionError, UsageError
from trimbed.selection.decide import Reason, decide, source_floors
from trimbed.selection.frame import Frame
from trimbed.selection.policy import SelectionConfig
from trimbed.selection.select import select_tokens
from trimbed.storage.counts import CorpusCounts
from trimbed.tokenizer.spec import TokenizerSpec

BYTES = [chr(c) for c in [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100), *range(0x100, 0x144)]]


def settings(draw: Any) -> dict[str, Any]:
    found = {
        "coverage": draw(st.none() | st.floats(0.05, 1)),
        "top_k": draw(st.none() | st.integers(1, 20)),
        "min_count": draw(st.none() | st.integers(1, 20)),
        "coverage_per_source": draw(st.none() | st.floats(0.05, 1)),
    }
    return {key: value for key, value in found.items() if value is not None}


# -- properties over any relation and counts -------------------------------------------------------------------------


@given(frames(), st.data())
def test_invariant_7_a_request_never_drops_a_token(frame, data) -> None:
    policy = SelectionConfig(**settings(data.draw))
    asked = data.draw(masks(frame.vocab_size))
    more = asked | data.draw(masks(frame.vocab_size))
    fewer, greater = decide(frame, asked, policy).kept, decide(frame, more, policy).kept
    assert (greater[fewer]).all() and greater[more].all()


@given(frames(), st.data(), st.floats(0.05, 1), st.floats(0.05, 1))
def test_raising_the_coverage_never_shrinks_the_vocabulary(frame, data, one: float, other: float) -> None:
    rest = {key: value for key, value in settings(data.draw).items() if key != "coverage"}
    asked = data.draw(masks(frame.vocab_size))
    small, large = (
        decide(frame, asked, SelectionConfig(coverage=share, **rest)).kept for share in sorted((one, other))
    )
    assert large[small].all()


@given(frames(), st.data())
def test_what_is_kept_is_closed_and_holds_the_structural_tokens_under_any_policy(frame, data) -> None:
    policy = SelectionConfig(
        **settings(data.draw),
        max_vocab_size=data.draw(st.integers(int(frame.fixed.sum()) or 1, frame.vocab_size)),
        cap_order=data.draw(st.sampled_from(["frequency", "flow"])),
        cap_spares_requested=data.draw(st.booleans()),
    )
    outcome = decide(frame, data.draw(masks(frame.vocab_size)), policy)
    assert (frame.dependencies.closure(outcome.kept) == outcome.kept).all()
    assert outcome.kept[frame.structural].all()
    assert (outcome.reasons[frame.structural] == Reason.structural).all()
    assert outcome.kept.sum() <= (policy.max_vocab_size or 0)
    assert outcome.before_cap[outcome.kept].all()


@given(frames(), st.data())
def test_a_cap_that_binds_is_met_exactly(frame, data) -> None:
    asked = data.draw(masks(frame.vocab_size))
    free = int(decide(frame, asked, SelectionConfig(coverage=1.0)).kept.sum())
    cap = data.draw(st.integers(max(1, int(frame.fixed.sum())), max(1, free)))
    for order in ("frequency", "flow"):
        outcome = decide(frame, asked, SelectionConfig(coverage=1.0, max_vocab_size=cap, cap_order=order))
        assert outcome.kept.sum() == min(cap, free)


@given(frames(), st.data(), st.integers(1, 12))
def test_rounding_adds_tokens_up_to_the_multiple_and_keeps_the_closure(frame, data, multiple: int) -> None:
    asked = data.draw(masks(frame.vocab_size))
    plain = decide(frame, asked, SelectionConfig(top_k=3)).kept
    rounded = decide(frame, asked, SelectionConfig(top_k=3, pad_vocab_to_multiple_of=multiple))
    assert rounded.kept[plain].all()
    assert rounded.kept.sum() == min(-(-int(plain.sum()) // multiple) * multiple, frame.vocab_size)
    assert (frame.dependencies.closure(rounded.kept) == rounded.kept).all()
    assert (rounded.reasons == Reason.rounding).sum() == rounded.kept.sum() - plain.sum()


@given(frames(), st.data())
def test_every_source_gets_its_floor(frame, data) -> None:
    share = data.draw(st.floats(0.05, 1))
    kept = decide(frame, np.zeros(frame.vocab_size, dtype=bool), SelectionConfig(coverage_per_source=share)).kept
    for counts in frame.by_source.values():
        ordinary = counts * frame.ordinary
        assert ordinary[kept].sum() >= share * ordinary.sum() - 1e-9


# -- each algorithm --------------------------------------------------------------------------------------------------


def test_the_same_set_whatever_the_order_of_the_sources(any_tiny: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(any_tiny)
    parts = {f"s{n}": made.SENTENCES[n::4] for n in range(4)}
    counts = count(spec, [], **parts)
    turned = CorpusCounts(spec.vocab_size, dict(reversed(counts.by_source.items())))
    weights = {"s0": 0.1, "s1": 0.7, "s2": 3.3}
    for policy in (
        SelectionConfig(coverage=0.9, source_weights=weights),
        SelectionConfig(coverage_per_source={"s3": 0.5, "default": 0.8}, top_k=20, source_weights=weights),
    ):
        assert select_tokens(spec, counts, policy).to_json() == select_tokens(spec, turned, policy).to_json()


def test_each_step_adds_its_own_reason(any_tiny: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(any_tiny)
    counts = count(spec, made.SENTENCES)
    selection = select_tokens(spec, counts, SelectionConfig(coverage=0.8, keep_texts=["nobody noticed the château"]))
    by_reason = selection.counts_by_reason()
    assert by_reason["structural"] == len(spec.structural_ids())
    assert by_reason["requested"] > 0 and by_reason["corpus"] > 0 and by_reason["rounding"] == 0
    assert sum(by_reason.values()) == len(selection) == len(selection.kept)
    assert set(selection.provenance) == set(selection.kept.tolist())
    assert set(spec.encode("nobody noticed the château")) <= set(selection.kept.tolist())
    if spec.algorithm == "bpe":
        assert by_reason["dependency"] > 0


def test_structural_tokens_alone_are_the_smallest_cap(any_tiny: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(any_tiny)
    counts = count(spec, made.SENTENCES)
    fixed = int(Frame.of(spec, counts).fixed.sum())
    selection = select_tokens(spec, counts, SelectionConfig(max_vocab_size=fixed))
    assert set(selection.kept.tolist()) >= set(spec.structural_ids()) and len(selection) == fixed
    with pytest.raises(SelectionError, match="smallest cap for this tokenizer"):
        select_tokens(spec, counts, SelectionConfig(max_vocab_size=fixed - 1))


@pytest.mark.parametrize("order", ["frequency", "flow"])
def test_a_kept_text_encodes_as_before_with_the_trimmed_tokenizer(any_tiny: dict[str, Any], order: str) -> None:
    from trimbed.trimming.surgery import trim_document

    spec = TokenizerSpec.from_document(any_tiny)
    text = "Die Straße war nach dem Gewitter völlig überflutet; print(area(2))"
    config = SelectionConfig(
        top_k=40, keep_texts=[text], max_vocab_size=500, cap_order=order, cap_spares_requested=True
    )
    selection = select_tokens(spec, count(spec, made.SENTENCES), config)
    assert not selection.dropped_requested
    document, old_to_new = trim_document(any_tiny, selection.kept)
    assert TokenizerSpec.from_document(document).encode(text) == old_to_new[spec.encode(text)].tolist()


def test_weights_are_applied_on_reading_and_change_who_wins(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    counts = count(spec, [], german=[made.SENTENCES[2]] * 3, french=[made.SENTENCES[3]] * 2)
    plain = select_tokens(spec, counts, SelectionConfig(top_k=10))
    weighted = select_tokens(spec, counts, SelectionConfig(top_k=10, source_weights={"french": 100}))
    french = set(np.flatnonzero(counts.by_source["french"]).tolist())
    ours = [sum(s.provenance[i] == "corpus" for i in french & set(s.kept.tolist())) for s in (plain, weighted)]
    assert ours[1] > ours[0]


def test_a_per_source_floor_saves_a_small_language(tiny_metaspace_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_metaspace_bpe)
    counts = count(spec, [], english=made.SENTENCES[:2] * 500, greek=[made.SENTENCES[5]])
    drowned = select_tokens(spec, counts, SelectionConfig(coverage=0.95))
    saved = select_tokens(spec, counts, SelectionConfig(coverage=0.95, coverage_per_source={"greek": 0.9}))
    share = [counts.by_source["greek"][s.kept].sum() / counts.by_source["greek"].sum() for s in (drowned, saved)]
    assert share[0] < 0.5 and share[1] >= 0.9


def test_a_floor_by_name_wins_over_the_default() -> None:
    counts = {"a": np.array([5, 4, 3]), "b": np.array([1, 1, 8])}
    nothing = np.zeros(3, dtype=bool)
    from trimbed.tokenizer.dependencies import Dependencies

    frame = Frame(~nothing, nothing, Dependencies.none(3), counts["a"] + counts["b"], counts)
    policy = SelectionConfig(coverage_per_source={"a": 0.4, "default": 1.0})
    assert source_floors(frame, policy) == {"a": 1, "b": 3}
    with pytest.raises(UsageError, match="'c', which is no source of these counts: a, b"):
        source_floors(frame, SelectionConfig(coverage_per_source={"c": 0.5}))


# -- inputs that others met ------------------------------------------------------------------------------------------


def test_ancestors_that_were_never_seen_stay_and_name_the_token_that_needs_them() -> None:
    word = "hippopotamus"
    letters = list(dict.fromkeys(word + "sh"))
    chain = [word[:n] for n in range(2, len(word) + 1)]
    spec = bpe(letters + chain, [(word[: n - 1], word[n - 1]) for n in range(2, len(word) + 1)])
    counts = count(spec, [word] * 3)
    assert np.flatnonzero(counts.counts).tolist() == [spec.token_to_id(word)]
    selection = select_tokens(spec, counts, SelectionConfig(coverage=1.0))
    assert {spec.token_to_id(token) for token in [*chain, *word]} == set(selection.kept.tolist())
    assert selection.counts_by_reason()["dependency"] == len(chain) - 1 + len(set(word))
    assert selection.explain("hippo").why == "'hippopotamus' is built from it"


def test_a_missing_byte_is_not_repaired_and_no_byte_goes_below_the_cap() -> None:
    present = [c for c in BYTES if c != "č"]  # the byte 0D
    document = bpe([*present, "ĊĊ"], [("Ċ", "Ċ")]).document.data
    document["pre_tokenizer"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    spec = TokenizerSpec.from_document(document)
    counts = count(spec, ["\r\n\r\n", "\n\n", "ab"])
    assert spec.encode("\r\n\r\n") == spec.encode("\n\n") == [len(present)]
    with pytest.raises(SelectionError, match="max_vocab_size 100 can't be met: 255 tokens must stay"):
        select_tokens(spec, counts, SelectionConfig(coverage=1.0, max_vocab_size=100))
    smallest = select_tokens(spec, counts, SelectionConfig(coverage=1.0, max_vocab_size=255))
    assert [spec.tokens[index] for index in smallest.kept] == present


def test_control_tokens_in_text_never_use_up_a_cuts_places(tiny_wordpiece: dict[str, Any]) -> None:
    vocab = ["[UNK]", "[SEP]", "hello", "world"]
    tiny_wordpiece["model"]["vocab"] = {token: index for index, token in enumerate(vocab)}
    tiny_wordpiece["added_tokens"] = [added_entry(1, "[SEP]", special=True)]
    tiny_wordpiece.update(post_processor=None, truncation=None, padding=None)
    spec = TokenizerSpec.from_document(tiny_wordpiece)
    assert [spec.tokens[i] for i in spec.encode("hello [SEP] world [MASK]")] == [
        "hello", "[SEP]", "world", "[UNK]", "[UNK]", "[UNK]"
    ]  # fmt: skip
    counts = count(spec, ["hello [SEP] [SEP] [SEP] world world"])
    selection = select_tokens(spec, counts, SelectionConfig(top_k=1))
    assert [spec.tokens[index] for index, reason in selection.provenance.items() if reason == "corpus"] == ["world"]
    assert selection.explain("[SEP]").count == 3 and selection.explain("[SEP]").reason == "structural"


def test_a_token_no_merge_can_build_needs_no_ancestors() -> None:
    tokens, merges = [*"helo ", "he", "ll", "hello"], [("h", "e"), ("l", "l")]
    plain, ignoring = bpe(tokens, merges), bpe(tokens, merges, ignore_merges=True)
    for spec in (plain, ignoring):
        selection = select_tokens(spec, None, SelectionConfig(keep_tokens=["hello"]))
        assert [spec.tokens[index] for index in selection.kept] == ["hello"]
    assert [plain.tokens[i] for i in plain.encode("hello")] == ["he", "ll", "o"]
    assert [ignoring.tokens[i] for i in ignoring.encode("hello")] == ["hello"]


def test_one_token_in_three_roles_keeps_them_all_and_end_of_word_tokens_close() -> None:
    tokens = ["a", "b", "a</w>", "b</w>", "ab</w>", "ab", "<|startoftext|>", "<|endoftext|>"]
    document = bpe(
        tokens, [("a", "b</w>"), ("a", "b")],
        end_of_word_suffix="</w>", unk_token="<|endoftext|>", added=tokens[-2:],
    ).document.data  # fmt: skip
    document["pre_tokenizer"] = {"type": "Whitespace"}
    document["padding"] = {
        "strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 7, "pad_type_id": 0,
        "pad_token": "<|endoftext|>",
    }  # fmt: skip
    spec = TokenizerSpec.from_document(document)
    assert [spec.tokens[i] for i in spec.encode("ab aba z")] == ["ab</w>", "ab", "a</w>", "<|endoftext|>"]
    selection = select_tokens(spec, None, SelectionConfig(keep_texts=["ab"]))
    names = [spec.tokens[index] for index in selection.kept]
    assert names == ["a", "b</w>", "ab</w>", "<|startoftext|>", "<|endoftext|>"]


def test_runs_of_spaces_are_ordinary_text_to_the_count_and_stay_as_added_tokens() -> None:
    document = bpe(["a", "b", "Ġ", "ĠĠ", "Ċ"], [("Ġ", "Ġ")]).document.data
    document["pre_tokenizer"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": False,
    }
    for offset, content in enumerate(["    ", "  "]):
        document["added_tokens"].append(added_entry(5 + offset, content))
    spec = TokenizerSpec.from_document(document)
    assert [spec.tokens[i] for i in spec.encode("a    b")] == ["a", "    ", "b"]
    counts = count(spec, ["\n".join(["a", "    b", "        b"] * 20)])
    assert spec.tokens[counts.ranked_ids()[0]] == "    "
    selection = select_tokens(spec, counts, SelectionConfig(top_k=1))
    assert selection.provenance[5] == selection.provenance[6] == "structural"
    assert selection.explain("    ").why == "structural (added token): no policy may drop it"


def test_equal_counts_give_the_same_bytes_whatever_the_order_they_were_read_in(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    ordinary = [i for i in range(spec.vocab_size) if i not in spec.structural_ids()][:10]
    shards = [dict.fromkeys(ordinary[:4], 7), dict.fromkeys(ordinary[4:8], 7), dict.fromkeys(ordinary[8:], 7)]
    texts = set()
    for turn in range(3):
        merged = {index: n for shard in shards[turn:] + shards[:turn] for index, n in shard.items()}
        counts = CorpusCounts.from_counts(merged, vocab_size=spec.vocab_size)
        selection = select_tokens(spec, counts, SelectionConfig(top_k=5))
        assert [i for i, reason in selection.provenance.items() if reason == "corpus"] == ordinary[:5]
        texts.add(selection.to_json())
    assert len(texts) == 1


def test_a_cap_takes_requested_tokens_too_and_says_which_and_who_asked(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    counts = count(spec, made.SENTENCES[:2] * 50)
    config = SelectionConfig(coverage=1.0, keep_texts=[made.SENTENCES[2]], max_vocab_size=270)
    selection = select_tokens(spec, counts, config)
    assert selection.dropped_requested_tokens
    assert all(by == ("text:0",) for by in selection.dropped_requested_tokens.values())
    assert not set(selection.dropped_requested) & set(selection.kept.tolist())
    assert any("max_vocab_size took" in note for note in selection.notes)
    spared = select_tokens(spec, counts, config.model_copy(update={"cap_spares_requested": True}))
    assert len(spared.dropped_requested) < len(selection.dropped_requested)


def test_rounding_up_that_would_pass_the_cap_rounds_down() -> None:
    spec = TokenizerSpec.from_document(made.tiny("wordlevel"))
    counts = count(spec, made.training_texts()[:200])
    size = {
        cap: len(select_tokens(spec, counts, SelectionConfig(max_vocab_size=cap, pad_vocab_to_multiple_of=16)))
        for cap in (63, 64, 70)
    }
    assert size == {63: 48, 64: 64, 70: 64}


# -- what makes no sense ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "with_counts", "message"),
    [
        ({}, True, "counts have no cut"),
        ({}, False, "nothing to select by"),
        ({"coverage": 0.9}, False, "coverage needs counts"),
        ({"max_vocab_size": 500}, False, "nothing to select by"),
        ({"coverage": 0.9, "source_weights": {"x": 2}}, True, "source_weights names 'x'"),
        ({"keep_presets": ["digit"]}, False, "did you mean digits"),
        ({"keep_text_files": ["nowhere.txt"]}, False, "there is no file nowhere.txt"),
    ],
)
def test_a_policy_that_means_nothing_is_refused(
    tiny_bpe: dict[str, Any], config: dict[str, Any], with_counts: bool, message: str
) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    counts = count(spec, made.SENTENCES) if with_counts else None
    with pytest.raises(UsageError, match=message):
        select_tokens(spec, counts, SelectionConfig(**config))


def test_counts_of_another_vocabulary_are_refused(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    with pytest.raises(UsageError, match="use the tokenizer that was counted with"):
        select_tokens(spec, CorpusCounts.from_counts({1: 1}, vocab_size=7), SelectionConfig(coverage=0.9))


def test_an_id_that_is_not_there_is_an_error(tiny_bpe: dict[str, Any]) -> None:
    spec = TokenizerSpec.from_document(tiny_bpe)
    with pytest.raises(SelectionError, match="keep_token_ids asks for 5000"):
        select_tokens(spec, None, SelectionConfig(keep_token_ids=[5000]))
