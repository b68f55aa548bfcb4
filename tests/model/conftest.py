"""Models shared by the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.model.load import LoadedModel, load_model
from engine.model.weights import find_smollm2


@pytest.fixture(scope="session")
def toy() -> LoadedModel:
    return load_model("toy")


@pytest.fixture(scope="session")
def smollm2() -> LoadedModel:
    if find_smollm2() is None:
        pytest.skip("the SmolLM2 weights are not on this machine")
    return load_model("smollm2")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    folder = tmp_path / "home"
    monkeypatch.setenv("KVSCOPE_HOME", str(folder))
    monkeypatch.delenv("KVSCOPE_MODEL", raising=False)
    return folder
