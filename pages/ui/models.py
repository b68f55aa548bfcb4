"""The server's models: each loaded once, in the background, and shared read-only by all visitors."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from engine.errors import UserError
from engine.model.load import LoadedModel, load_model

SMOLLM2 = "smollm2"
TOY = "toy"


@dataclass
class Loading:
    """A model on its way: `done` 0..1 and `what` is being done, for a progress bar."""

    future: Future[LoadedModel]
    done: float = 0.0
    what: str = ""


@dataclass
class ModelShelf:
    """Models by name or path. A failed load is forgotten, so that the next visitor may try again."""

    _loading: dict[str, Loading] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "model"))

    def request(self, choice: str) -> Loading:
        """Starts loading, or joins a load that is under way or done."""
        with self._lock:
            loading = self._loading.get(choice)
            if loading is None or (loading.future.done() and loading.future.exception() is not None):
                loading = Loading(Future())
                self._loading[choice] = loading
                self._pool.submit(self._load, choice, loading)
            return loading

    def _load(self, choice: str, loading: Loading) -> None:
        def report(done: float, what: str) -> None:
            loading.done, loading.what = done, what

        try:
            loading.future.set_result(load_model(choice, report))
        except (UserError, OSError, RuntimeError) as error:
            loading.future.set_exception(error)


SHELF = ModelShelf()
