"""Who is visiting: one engine and its timeline per browser tab, kept by the app and not by Streamlit.

Streamlit drops session-scoped caches when a Wi-Fi link blinks; a class must not lose its place for that.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence

from engine.config import EngineConfig
from engine.engine import Engine
from engine.timeline import Step
from pages.figures.marks import Selection
from pages.ui.edits import Edit, added, branched, configured, replay
from pages.ui.workload import Workload

_LOG = logging.getLogger("kvscope")

MAX_SESSIONS = 24
IDLE_SECONDS = 30 * 60
MAX_STEPS = 2000  # of history per visitor; snapshots are small, but not nothing


class Session:
    """A visitor's engine, the steps run so far, and where in them the visitor looks.

    `cursor` is the index of the step the visitor wants to see, -1 for the state before the first; a thread computes
    what is missing up to it, and as far ahead as `want` says. `run` names the timeline: it changes with every edit.
    """

    def __init__(self, workload: Workload, edits: Sequence[Edit] = ()) -> None:
        self.lock = threading.RLock()  # guards the engine
        self.workload = workload
        self.selection: Selection | None = None
        self.failure: str | None = None  # why the next step could not be computed; the steps so far remain
        self.cursor = -1
        self.reached = -1
        self.prompts: dict[str, str] = {}
        self._grown = threading.Condition()  # guards what the thread publishes, never held while a step runs
        self._wanted = -1
        self._worker: threading.Thread | None = None
        self._closed = False
        self.replay(edits, -1)

    @property
    def last(self) -> int:
        """Index of the newest step computed."""
        return len(self.steps) - 1

    @property
    def config(self) -> EngineConfig:
        """The configuration this run goes by, with what was changed by hand."""
        return configured(self.workload, self.edits)

    @property
    def is_over(self) -> bool:
        """Nothing is left to compute: every request is over, the history is full, or a step failed."""
        return self._done or len(self.steps) >= MAX_STEPS or self.failure is not None

    def seek(self, target: int) -> None:
        """Moves the cursor to step `target` (-1: the start); nothing is computed twice, and nothing waits."""
        self.cursor = max(-1, min(target, MAX_STEPS - 1, self.last if self.is_over else target))
        self.reached = max(self.reached, min(self.cursor, self.last))

    def want(self, step: int) -> None:
        """Computes on in the background until `step` is there; a nearer wish than the last ends that one early."""
        with self._grown:
            self._wanted = min(step, MAX_STEPS - 1)
            if self._worker is None and self._is_behind():
                self._worker = threading.Thread(target=self._run_ahead, name="run-ahead", daemon=True)
                self._worker.start()

    def wait_for(self, step: int, seconds: float) -> bool:
        """Until `step` is computed, nothing more will be, or the time is up; says whether it is there."""
        with self._grown:
            self._grown.wait_for(lambda: self.last >= step or self.is_over, seconds)
            return self.last >= step

    def select(self, selection: Selection | None) -> None:
        """Selects a request or a block in all diagrams at once, or nothing."""
        self.selection = selection

    def edit(self, edit: Edit) -> None:
        """Goes on from step `edit.step - 1` with `edit` made: the steps and edits after it are dropped.

        Raises UserError if it cannot be made; then nothing has changed.
        """
        self.replay(branched(self.edits, edit), self.cursor if edit.kind == "config" else edit.step - 1)

    def replay(self, edits: Sequence[Edit], cursor: int) -> None:
        """Runs the workload again with `edits` and looks at step `cursor`; raises UserError, with nothing changed.

        A timeline that was left is got back by replaying its edits.
        """
        steps = max([cursor + 1, *(edit.step for edit in edits)])
        with self.lock:
            engine, done = replay(self.workload, edits, min(steps, MAX_STEPS))
            prompts = self.workload.prompts(added(self.workload, edits))
            with self._grown:
                self._adopt(engine, done)
                self.edits = tuple(edits)
                self.prompts = prompts
                self.cursor = self.reached = min(cursor, self.last)

    def close(self) -> None:
        """Ends the computing; the engine and its KV memory go with the last reference."""
        with self._grown:
            self._closed = True
            self._grown.notify_all()

    def _adopt(self, engine: Engine, steps: list[Step]) -> None:
        self.run = uuid.uuid4().hex[:12]
        self.engine = engine
        self.steps = steps
        self.failure = None
        self._done = engine.is_done
        self._wanted = -1

    def _is_behind(self) -> bool:
        return not self._closed and not self.is_over and self.last < self._wanted

    def _run_ahead(self) -> None:
        while True:
            with self.lock:
                with self._grown:
                    if not self._is_behind():
                        self._worker = None
                        return
                self._compute()

    def _compute(self) -> None:
        """One step; if it fails, the steps before it remain."""
        step, failure = None, None
        try:
            step = self.engine.step()
        except Exception as error:  # whatever it was, a visitor gets a sentence and the log the rest
            _LOG.exception("step %d failed", len(self.steps))
            failure = str(error) or type(error).__name__
        with self._grown:
            if step is not None:
                self.steps.append(step)
            self.failure = failure
            self._done = self.engine.is_done
            self._grown.notify_all()


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
        self.put(visitor, session)
        return session

    def put(self, visitor: str, session: Session) -> None:
        """From now on this is the visitor's session; the one before is closed."""
        with self._lock:
            before = self._sessions.get(visitor)
            self._sessions[visitor] = (session, time.monotonic())
            self._sessions.move_to_end(visitor)
        if before is not None and before[0] is not session:
            before[0].close()
        self.drop_stale()

    def find(self, visitor: str) -> Session | None:
        """The visitor's session, who by asking shows to be still there: each step counts, not only each page."""
        with self._lock:
            entry = self._sessions.get(visitor)
            if entry is None:
                return None
            self._sessions[visitor] = (entry[0], time.monotonic())
            self._sessions.move_to_end(visitor)
            return entry[0]

    def close(self, visitor: str) -> None:
        with self._lock:
            entry = self._sessions.pop(visitor, None)
        if entry is not None:
            entry[0].close()

    def close_all(self) -> None:
        for visitor in list(self._sessions):
            self.close(visitor)

    def drop_stale(self) -> None:
        """Closes sessions over the cap or idle too long."""
        oldest_allowed = time.monotonic() - self._idle_seconds
        while True:
            with self._lock:
                visitor, (_, seen) = next(iter(self._sessions.items()), ("", (None, 0.0)))
                if not visitor or (seen >= oldest_allowed and len(self._sessions) <= self._limit):
                    return
            self.close(visitor)


REGISTRY = SessionRegistry()
