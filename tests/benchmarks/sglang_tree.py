"""SGLang 0.5.23's own radix tree on a CPU, from an installed or unpacked wheel, without its server and its kernels.

`pip install --no-deps --target DIR sglang==0.5.23 msgspec` is enough; torch is here already. What the tree's modules
import but do not need is replaced by empty modules; the tree and its allocators themselves are unmodified.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
import warnings
from array import array
from pathlib import Path
from typing import Any

_NOT_NEEDED = (
    "sglang.kernels", "sglang.srt.configs", "sglang.srt.layers", "sglang.srt.managers.cache_controller",
    "sglang.srt.managers.schedule_batch", "sglang.srt.mem_cache.buffer_mode.pipeline",
    "sglang.srt.mem_cache.hybrid_cache", "sglang.srt.mem_cache.memory_pool",
    "sglang.srt.observability.metrics_collector",
)  # fmt: skip


class _Anything:
    """Stands for a name nobody will use; it may be called, subscripted, subclassed and used as a decorator."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else _Anything()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __getitem__(self, _: Any) -> Any:
        return _Anything()

    def __or__(self, _: Any) -> Any:
        return _Anything()

    __ror__ = __or__


class _Empty(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[:1].isupper() and not name.isupper() else _Anything()


class _Finder:
    """Finds what is not needed (first in line), or whatever SGLang imports and nobody else has found (last)."""

    def __init__(self, last: bool) -> None:
        self.last = last

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        missing = self.last and name.split(".")[0] not in {"sglang", "torch", *sys.stdlib_module_names}
        if missing or any(name == known or name.startswith(f"{known}.") for known in _NOT_NEEDED):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = _Empty(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None: ...


def _load(folder: Path) -> None:
    package = _Empty("sglang")
    package.__path__ = [str(folder / "sglang")]
    sys.modules["sglang"] = package
    sys.path.append(str(folder))
    first, last = _Finder(last=False), _Finder(last=True)
    sys.meta_path[:] = [first, *sys.meta_path, last]  # type: ignore[list-item]
    try:
        with warnings.catch_warnings(action="ignore"):
            for name in ("radix_cache", "allocator.paged", "allocator.token"):
                importlib.import_module(f"sglang.srt.mem_cache.{name}")
    finally:  # nobody else shall find an empty module
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in (first, last)]
        for name in [name for name, module in sys.modules.items() if isinstance(module, _Empty)]:
            if not name.startswith("sglang"):
                del sys.modules[name]


class SGLangTree:
    """`RadixCache` with its allocator, driven by the calls of `bench_radix`."""

    def __init__(self, folder: Path, pool_tokens: int, page_size: int) -> None:
        if "sglang" not in sys.modules:
            _load(folder)
        import torch
        from sglang.srt.mem_cache import base_prefix_cache, radix_cache
        from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
        from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
        from sglang.srt.mem_cache.cache_init_params import CacheInitParams

        self.page_size, self._torch = page_size, torch
        self._calls, self._key = base_prefix_cache, radix_cache.RadixKey
        shape = (pool_tokens,) if page_size == 1 else (pool_tokens, page_size)
        allocator = TokenToKVPoolAllocator if page_size == 1 else PagedTokenToKVPoolAllocator
        self._pool = allocator(*shape, torch.float16, "cpu", None, False)
        self._tree = radix_cache.RadixCache(
            CacheInitParams(
                disable=False, req_to_token_pool=None, token_to_kv_pool_allocator=self._pool, page_size=page_size,
                eviction_policy="lru",
            )
        )  # fmt: skip

    @property
    def available(self) -> int:
        return int(self._pool.available_size())

    def key(self, tokens: array[int], count: int) -> Any:
        return self._key(tokens, limit=count)

    def units(self, key: Any) -> int:
        return len(key) // self.page_size * self.page_size

    def match(self, key: Any) -> tuple[int, Any]:
        found = self._tree.match_prefix(self._calls.MatchPrefixParams(key=key))
        return found.device_prefix_len, found.last_device_node

    def lock(self, node: Any) -> Any:
        return self._tree.lock(node)

    def unlock(self, lock: Any) -> None:
        self._tree.unlock(lock)

    def evict(self, tokens: int) -> None:
        self._tree.evict(self._calls.EvictParams(num_tokens=tokens))

    def pages(self, node: Any, fresh: int) -> Any:
        held = self._tree.path_device_indices(node)
        return self._torch.cat([held, self._pool.alloc(fresh)]) if fresh else held

    def insert(self, key: Any, pages: Any, held: int) -> None:
        """Stores and frees the duplicates."""
        aligned = key.page_aligned(self.page_size)
        present = self._tree.insert(self._calls.InsertParams(key=aligned, value=pages)).prefix_len
        if present > held:
            self._pool.free_segment(pages[held:present], start_pos=held)
