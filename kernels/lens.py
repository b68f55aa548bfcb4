"""The kernel lens: one row of a launch, run again through the real Triton kernel in an interpreting process of its own.

On a CPU the torch twin is the live path, and a process is Triton's interpreter or it is not: so `Lens` keeps a second
one (`python -m kernels.lens`), sends it what the row reads and gets back the kernel's output, its own record and every
access. The two talk over a socket of their own; what the worker prints goes elsewhere.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from kernels import checks
from kernels.errors import KernelError
from kernels.layout import CacheLayout, KVLayer
from kernels.metadata import AttentionMetadata, MaskKind, RowMasks, ScoreRule
from kernels.recorder import LaunchRecord, buffers_for, read_buffers, tiling_of
from kernels.sanitizer import Access, Rights, Violation, watch
from kernels.tiling import Tiling

START_TIMEOUT = 120.0  # seconds until torch and triton are imported, on a busy machine


@dataclass(frozen=True, slots=True)
class LensResult:
    """What the kernel itself did. output [T, Hq, D] in the query's dtype; lse float32 [T, Hq].

    record: written by the kernel under RECORD; reads: the same walk as the interpreter's hooks saw it. milliseconds:
    measured, of the interpreted and watched launch, which says nothing of a GPU.
    """

    output: Tensor
    lse: Tensor
    record: LaunchRecord
    reads: LaunchRecord
    accesses: tuple[Access, ...]
    violations: tuple[Violation, ...]
    milliseconds: float
    triton: str


@dataclass(frozen=True, slots=True)
class _Job:
    """A launch with nothing but the blocks its table names: `blocks` [n] are the ids of the tensors' first axis."""

    query: Tensor
    layout: CacheLayout
    blocks: Tensor
    tensors: tuple[Tensor | None, ...]  # key, value, key_scale, value_scale
    meta: AttentionMetadata
    rule: ScoreRule
    rights: Rights | None
    chosen: Tiling


@dataclass(frozen=True, slots=True)
class _Failed:
    message: str


class Lens:
    """The interpreting process and the talk with it: started at the first look, then kept; one look at a time.

    It ends with `close`, with this object, or with the interpreter. After a crash the next look starts a new one.
    """

    def __init__(self, timeout: float = 60.0) -> None:
        """timeout: seconds a look may take before the process is ended."""
        self.timeout = timeout
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Connection | None = None

    def look(
        self,
        query: Tensor,
        layer: KVLayer,
        meta: AttentionMetadata,
        rule: ScoreRule,
        rights: Rights | None = None,
        chosen: Tiling | None = None,
    ) -> LensResult:
        """Run the launch again, usually of one row (`row_of`); arguments as `dispatch.paged_attention`.

        `rights` as in `sanitizer.watch`. Raises KernelError when the metadata does not fit the tensors, where triton is
        missing or cannot be imported, when the process ends in the middle and when it takes longer than `timeout`.
        """
        checks.check_attention(query, layer, meta, rule, None)
        job = _pack(_job(query, layer, meta, rule, rights, chosen))
        with self._lock:
            answer = self._ask(job)
        if isinstance(answer, _Failed):
            raise KernelError("lens", f"the kernel failed in the interpreter: {answer.message}")
        assert isinstance(answer, LensResult)
        return answer

    def close(self) -> None:
        """End the process; a later look starts a new one."""
        with self._lock:
            self._end()

    def _ask(self, job: bytes) -> Any:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._link is None:
            self._start()
        assert self._link is not None
        try:
            self._link.send_bytes(job)
            if self._link.poll(self.timeout):
                return _unpack(self._link.recv_bytes())
        except (EOFError, OSError):
            code = self._end()
            raise KernelError("lens", f"the interpreting process ended during a launch (exit code {code})") from None
        except BaseException:
            self._end()  # interrupted: the answer would be taken for the next look's
            raise
        self._end()
        raise KernelError("lens", f"no answer within {self.timeout:g} s; the interpreting process was ended")

    def _start(self) -> None:
        if find_spec("triton") is None or sys.platform == "win32":
            raise KernelError("triton", "is not installed here (it has wheels for Linux only)")
        ours, theirs = Pipe()
        root = str(Path(__file__).parents[1])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "kernels.lens", str(theirs.fileno())],
                # One thread: numbers of this size gain nothing from two, and the engine needs the others.
                env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(paths),
                     "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                cwd=root, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self._link = ours
        weakref.finalize(self, _kill, self._process)
        try:
            ready = _unpack(ours.recv_bytes()) if ours.poll(START_TIMEOUT) else _Failed("it takes too long")
        except (EOFError, OSError):
            ready = _Failed("the process ended")
        if isinstance(ready, _Failed):
            self._end()
            raise KernelError("triton", f"cannot be imported for the lens: {ready.message}")

    def _end(self) -> int | None:
        """Exit code, negative for a signal."""
        code = None
        if self._process is not None:
            code = _kill(self._process)
        if self._link is not None:
            self._link.close()
        self._process = self._link = None
        return code


def _kill(process: subprocess.Popen[bytes]) -> int:
    process.kill()  # does nothing to one that has ended
    return process.wait()


def row_of(meta: AttentionMetadata, row: int, last_tokens: int | None = None) -> tuple[AttentionMetadata, slice]:
    """(metadata of one row alone, its tokens in the batch), or of no more than its last query tokens.

    Positions stay what they are. The row is launched as it would be if it were alone: a decode row of a mixed batch may
    be split. Raises KernelError for a tree that is to be cut: its branches are counted from the row's first token.
    """
    first, end = meta.query_start_loc[row : row + 2].tolist()
    if last_tokens is not None and 0 < last_tokens < end - first:
        if meta.masks is not None and int(meta.masks.kind[row]) == MaskKind.TREE:
            raise KernelError("last_tokens", f"row {row} is a tree, which cannot be cut")
        first = end - last_tokens
    tokens, rows = slice(first, end), slice(row, row + 1)
    masks = meta.masks
    if masks is not None:
        masks = RowMasks(masks.kind[rows], masks.size[rows], masks.branch[tokens])
    return replace(
        meta,
        query_start_loc=torch.tensor([0, end - first], dtype=torch.int32, device=meta.query_start_loc.device),
        seq_lens=meta.seq_lens[rows], block_table=meta.block_table[rows], slot_mapping=meta.slot_mapping[tokens],
        max_query_len=end - first, max_seq_len=int(meta.seq_lens[row]), semantics=meta.semantics[rows], masks=masks,
    ), tokens  # fmt: skip


def _job(
    query: Tensor,
    layer: KVLayer,
    meta: AttentionMetadata,
    rule: ScoreRule,
    rights: Rights | None,
    chosen: Tiling | None,
) -> _Job:
    used = [
        table[: -(-length // meta.block_size)]
        for table, length in zip(meta.block_table.cpu(), meta.seq_lens.tolist(), strict=True)
    ]
    blocks = torch.unique(torch.cat(used)) if used else meta.block_table.flatten()
    blocks = blocks[(blocks >= 0) & (blocks < layer.layout.num_blocks)].long()
    tensors = (layer.key, layer.value, layer.key_scale, layer.value_scale)
    sent = tuple(None if x is None else x.index_select(0, blocks.to(x.device)).cpu() for x in tensors)
    slopes = None if rule.alibi_slopes is None else rule.alibi_slopes.cpu()
    return _Job(
        query.cpu().contiguous(), layer.layout, blocks, sent, _on_cpu(meta), replace(rule, alibi_slopes=slopes), rights,
        chosen or tiling_of(query, layer),
    )  # fmt: skip


def _on_cpu(meta: AttentionMetadata) -> AttentionMetadata:
    masks = meta.masks
    return replace(
        meta, query_start_loc=meta.query_start_loc.cpu(), seq_lens=meta.seq_lens.cpu(),
        block_table=meta.block_table.cpu(), slot_mapping=meta.slot_mapping.cpu(),
        masks=None if masks is None else RowMasks(masks.kind.cpu(), masks.size.cpu(), masks.branch.cpu()),
    )  # fmt: skip


def _pack(message: object) -> bytes:
    memory = io.BytesIO()
    torch.save(message, memory)
    return memory.getvalue()


def _unpack(data: bytes) -> Any:
    # Not weights of unknown origin: both ends are this module.
    return torch.load(io.BytesIO(data), weights_only=False)


def serve(descriptor: int) -> None:
    """The worker: answers jobs until the other end is gone."""
    torch.set_num_threads(1)
    with Connection(descriptor) as link:
        link.send_bytes(_pack(_answered(_ready)))
        while True:
            try:
                job = link.recv_bytes()
            except EOFError:
                return
            link.send_bytes(_pack(_answered(partial(_run, job))))


def _answered(work: Callable[[], object]) -> object:
    """What `work` gives, or what went wrong in words: the page shall say it, whatever it is."""
    try:
        return work()
    except Exception as error:
        return _Failed(f"{type(error).__name__}: {error}")


def _ready() -> str:
    """Triton's version, once everything a job needs is imported."""
    import triton

    from kernels import paged_attention

    return f"{triton.__version__} {paged_attention.__name__}"


def _run(data: bytes) -> LensResult:
    import triton

    job: _Job = _unpack(data)
    # A pool of the same size, so that ids keep their meaning; memory that is not touched costs nothing.
    layer = replace(job.layout, num_layers=1).allocate().layer(0)
    for target, sent in zip((layer.key, layer.value, layer.key_scale, layer.value_scale), job.tensors, strict=True):
        if target is not None and sent is not None:
            target[job.blocks] = sent
    buffers = buffers_for(job.query, layer, job.meta, job.chosen)
    lse = torch.empty(job.query.shape[:2])
    began = time.perf_counter()
    seen = watch(job.query, layer, job.meta, job.rule, job.rights, lse, job.chosen, buffers)
    milliseconds = (time.perf_counter() - began) * 1000
    record = read_buffers(buffers, job.query, layer, job.meta, job.chosen)
    return LensResult(
        seen.output, lse, record, seen.record, seen.accesses, seen.violations, milliseconds, triton.__version__
    )


if __name__ == "__main__":
    from kernels import lens

    # The module by its name, not as __main__: what is packed here is unpacked there.
    lens.serve(int(sys.argv[1]))
