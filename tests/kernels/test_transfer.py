"""Many small tensors in one copy come out as they went in."""

from __future__ import annotations

import pytest
import torch

from kernels.transfer import download, pack, unpack, upload


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_uploaded_lists_are_themselves_and_aligned(dtype: torch.dtype) -> None:
    pieces = [[1, 2, 3], [], [-4], list(range(9)), [2**31 - 1] * 2]
    sent = upload(pieces, dtype, "cpu")
    assert [tensor.tolist() for tensor in sent] == pieces
    assert {tensor.dtype for tensor in sent} == {dtype}
    assert all((tensor.storage_offset() * dtype.itemsize) % 16 == 0 for tensor in sent)
    assert len({tensor.untyped_storage().data_ptr() for tensor in sent}) == 1


def test_packed_tensors_are_themselves() -> None:
    tensors = [
        torch.randn(3, 5), torch.arange(7), torch.tensor(2.5), torch.empty(0, 4), torch.randn(6, 4).T.half(),
        torch.tensor([True, False, True]), torch.randn(2, 3, dtype=torch.float64), torch.tensor([float("nan")]),
    ]  # fmt: skip
    packed = pack(tensors)
    assert (packed.dtype, packed.numel()) == (torch.uint8, sum(tensor.nbytes for tensor in tensors))
    for got, want in zip(unpack(packed, tensors), tensors, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert torch.equal(got.nan_to_num(9.0), want.nan_to_num(9.0))


def test_on_the_host_nothing_is_copied() -> None:
    tensors = [torch.zeros(2), torch.ones(3)]
    assert all(got is want for got, want in zip(download(tensors), tensors, strict=True))
    assert download([]) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine")
def test_up_and_down_on_a_gpu() -> None:
    pieces = [[1, 2, 3], [], [4]]
    sent = upload(pieces, torch.int64, "cuda")
    assert {tensor.device.type for tensor in sent} == {"cuda"}
    back = download([*sent, torch.full((2, 2), 0.5, device="cuda")])
    assert [tensor.tolist() for tensor in back] == [*pieces, [[0.5, 0.5], [0.5, 0.5]]]
