"""One step as the panels see it: the steps so far, where the visitor looks, and in which language and colours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.config import EngineConfig
from engine.snapshot import Snapshot
from engine.timeline import KernelRow, Step
from pages.figures.marks import Marks, Selection, block_marks
from pages.figures.radix_tree import Labeller, token_ids
from pages.ui.panels import kernel_focus
from pages.ui.text import Lang
from pages.ui.theme import Palette


@dataclass(frozen=True)
class Scene:
    """`cursor` is the step shown, -1 for `initial` (nothing run yet). Immutable, like the steps it is made of."""

    steps: Sequence[Step]
    cursor: int
    initial: Snapshot
    config: EngineConfig
    palette: Palette
    lang: Lang
    selection: Selection | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    caption: str = ""
    label: Labeller = token_ids  # tokens → the text of an edge of the radix tree
    focus_panel: str = ""  # which panel the caption is about

    @cached_property
    def step(self) -> Step | None:
        return self.steps[self.cursor] if 0 <= self.cursor < len(self.steps) else None

    @cached_property
    def snapshot(self) -> Snapshot:
        return self.step.snapshot if self.step is not None else self.initial

    @cached_property
    def marks(self) -> Marks:
        return block_marks(self.step.events, self.snapshot) if self.step is not None else {}

    @cached_property
    def focus(self) -> str | None:
        """The request whose attention is shown."""
        return kernel_focus(self.step, self.selection)

    @cached_property
    def row(self) -> KernelRow | None:
        """What the step's launch computed for `focus`."""
        record = self.step.kernel if self.step is not None else None
        return record.row(self.focus) if record is not None and self.focus is not None else None
