"""Small things between host and device: many at once, since on a GPU each transfer costs more than what it carries."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Triton compiles another variant for a pointer that is not a multiple of this, which must not happen in mid-run.
_ALIGNED_BYTES = 16


def upload(pieces: Sequence[Sequence[int]], dtype: torch.dtype, device: torch.device | str) -> list[Tensor]:
    """Each list as a tensor [len] on `device`, all in one copy; to a GPU from pinned memory, without waiting for it."""
    device = torch.device(device)
    step = _ALIGNED_BYTES // dtype.itemsize
    numbers: list[int] = []
    ranges = []
    for piece in pieces:
        ranges.append((len(numbers), len(numbers) + len(piece)))
        numbers += piece
        numbers += [0] * (-len(piece) % step)
    host = torch.tensor(numbers, dtype=dtype, pin_memory=device.type == "cuda")
    there = host.to(device, non_blocking=True)
    return [there[start:end] for start, end in ranges]


def download(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors (on one device) on the host, in one copy that waits for the device; on a CPU as they are."""
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return list(tensors)
    return unpack(pack(tensors).cpu(), tensors)


def pack(tensors: Sequence[Tensor]) -> Tensor:
    """All bytes in one uint8 tensor, widest dtypes first, so that each piece lies where its dtype may."""
    return torch.cat([tensors[index].contiguous().view(-1).view(torch.uint8) for index in _widest_first(tensors)])


def unpack(packed: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """What `pack` made of tensors with the shapes and dtypes of `like`, as views of `packed`."""
    found: dict[int, Tensor] = {}
    start = 0
    for index in _widest_first(like):
        end = start + like[index].nbytes
        found[index] = packed[start:end].view(like[index].dtype).view(like[index].shape)
        start = end
    return [found[index] for index in range(len(like))]


def _widest_first(tensors: Sequence[Tensor]) -> list[int]:
    return sorted(range(len(tensors)), key=lambda index: -tensors[index].itemsize)
