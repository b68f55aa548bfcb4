"""Who is visiting: one engine and its timeline per browser tab, kept by the app and not by Streamlit.

Streamlit drops session-scoped caches when a Wi-Fi link blinks; a class must not lose its place for that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from engine.engine import Engine
from engine.timeline import Step
from pages.figures.marks import Selection
from pages.ui.workload import Workload

_LOG = logging.getLogger("kvscope")

MAX_SESSIONS = 24
IDLE_SECONDS = 30 * 60
MAX_STEPS = 2000  # of history per visitor; snapshots are small, but not nothing
SLICE_SECONDS = 0.3  # how long one answer may keep computing before the page is drawn again


class Session:
    """A visitor's engine, the steps run so far, and where in them the visitor looks.

    `cursor` is the index of the step shown, -1 for the state before the first. While `goal` lies ahead of it the
    session is on its way: the page asks for more with `tick` each time it has drawn.
    """

    def __init__(self, workload: Workload, engine: Engine) -> None:
        self.lock = threading.RLock()
        self.workload = workload
        self.engine = engine
        self.steps: list[Step] = []
        self.cursor = -1
        self.goal = -1
        self.selection: Selection | None = None
        self.failure: str | None = None  # why the next step could not be computed; the steps so far remain
        self._one_at_a_time = False

    @property
    def is_over(self) -> bool:
        """Nothing is left to compute: every request is over, the history is full, or a step failed."""
        return self.engine.is_done or len(self.steps) >= MAX_STEPS or self.failure is not None

    @property
    def is_running(self) -> bool:
        return self.goal > self.cursor and not (self.is_over and self.cursor == len(self.steps) - 1)

    def seek(self, target: int) -> None:
        """Shows step `target` (-1: the start), computing what is missing for at most one time slice per answer."""
        with self.lock:
            self.goal = max(-1, min(target, MAX_STEPS - 1))
            self._one_at_a_time = False
            self._advance()

    def run_to_end(self) -> None:
        self.seek(MAX_STEPS - 1)

    def play(self) -> None:
        """Runs on from the cursor one step per tick, through steps already run and then through new ones."""
        with self.lock:
            self.goal = MAX_STEPS - 1
            self._one_at_a_time = True

    def tick(self, drawn: int) -> None:
        """The page has drawn step `drawn`; goes on if that is still the step shown."""
        with self.lock:
            if drawn == self.cursor and self.is_running:
                self._advance()

    def stop(self) -> None:
        with self.lock:
            self.goal = self.cursor

    def select(self, selection: Selection | None) -> None:
        """Selects a request or a block in all diagrams at once, or nothing."""
        with self.lock:
            self.selection = selection

    def _advance(self) -> None:
        """Moves the cursor towards the goal; if a step fails, the steps before it remain."""
        until = time.monotonic() + SLICE_SECONDS
        goal = min(self.goal, self.cursor + 1) if self._one_at_a_time else self.goal
        while len(self.steps) <= goal and not self.is_over:
            try:
                self.steps.append(self.engine.step())
            except Exception as error:  # whatever it was, a visitor gets a sentence and the log the rest
                _LOG.exception("step %d failed", len(self.steps))
                self.failure = str(error) or type(error).__name__
            if time.monotonic() >= until:
                break
        self.cursor = min(goal, len(self.steps) - 1)
        if not self.is_running:
            self.goal = self.cursor


class SessionRegistry:
    """Sessions by visitor, least recently seen first. Over the cap or idle too long, they are closed."""

    def __init__(self, limit: int = MAX_SESSIONS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._sessions: OrderedDict[str, tuple[Session, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._limit = limit
        self._idle_seconds = idle_seconds

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, visitor: str, key: str, create: Callable[[], Session]) -> Session:
        """The visitor's session over the workload called `key`, made by `create` if there is none.

        If `create` fails, the visitor keeps the session there was.
        """
        with self._lock:
            entry = self._sessions.get(visitor)
        known = entry[0] if entry is not None else None
        session = known if known is not None and known.workload.key == key and not known.failure else create()
        with self._lock:
            self._sessions[visitor] = (session, time.monotonic())
            self._sessions.move_to_end(visitor)
        self.drop_stale()
        return session

    def seen(self, visitor: str) -> None:
        """The visitor is still there: each step drawn counts, not only each page opened."""
        with self._lock:
            if visitor in self._sessions:
                self._sessions[visitor] = (self._sessions[visitor][0], time.monotonic())
                self._sessions.move_to_end(visitor)

    def close(self, visitor: str) -> None:
        with self._lock:
            self._sessions.pop(visitor, None)

    def close_all(self) -> None:
        with self._lock:
            self._sessions.clear()

    def drop_stale(self) -> None:
        """Closes sessions over the cap or idle too long."""
        oldest_allowed = time.monotonic() - self._idle_seconds
        with self._lock:
            while self._sessions:
                visitor, (_, seen) = next(iter(self._sessions.items()))
                if seen >= oldest_allowed and len(self._sessions) <= self._limit:
                    return
                del self._sessions[visitor]


REGISTRY = SessionRegistry()
