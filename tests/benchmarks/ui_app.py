"""The page that bench_ui measures: one made-up load, drawn by the stage or, for comparison, by st.plotly_chart.

streamlit run tests/benchmarks/ui_app.py, then ?how=stage|plotly&blocks=128&requests=12
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

sys.path.insert(0, str(Path(__file__).parents[2]))

from engine.config import EngineConfig
from engine.model.load import load_model
from engine.request import RequestSpec, SamplingParams
from pages.ui.feed import first
from pages.ui.frame import PANELS, first_open, parts
from pages.ui.scene import Scene
from pages.ui.session import REGISTRY, Session
from pages.ui.shell import visitor
from pages.ui.stage import mount
from pages.ui.theme import LIGHT
from pages.ui.vendor import routes
from pages.ui.workload import Workload

BLOCK_SIZE = 8
OUTPUT = (30, 50)
PROMPT = (20, 40)
SHARED = 16
STEPS = 1100


def load(blocks: int, requests: int) -> Workload:
    """About `requests` running at any time, a few tokens of their prompts shared, for more than a thousand steps."""
    rng = random.Random(7)
    config = EngineConfig(block_size=BLOCK_SIZE, num_blocks=blocks, max_num_batched_tokens=256, max_num_seqs=requests)
    gap = sum(OUTPUT) / 2 / requests
    specs = []
    for index in range(int(STEPS / gap)):
        own = [rng.randrange(10, 300) for _ in range(rng.randint(*PROMPT) - SHARED)]
        length = rng.randint(*OUTPUT)
        arrival = max(0, int((index - requests) * gap))
        specs.append(
            RequestSpec(
                f"R{index}", (*range(20, 20 + SHARED), *own), length, arrival, sampling=SamplingParams(0.8, seed=1)
            )
        )
    return Workload(f"bench-{blocks}-{requests}", config, tuple(specs), load_model("toy"))


def page() -> None:
    st.set_page_config(layout="wide")
    blocks, requests = (
        int(st.query_params.get(name, value)) for name, value in (("blocks", "128"), ("requests", "12"))
    )
    key = f"bench-{blocks}-{requests}"
    session = REGISTRY.get(visitor(), key, lambda: Session(load(blocks, requests)))
    if st.query_params.get("how") == "plotly":
        _by_plotly_chart(session)
    else:
        mount(first(visitor(), session, LIGHT, "en", {}), key="stage", on_lost=lambda: None)


@st.fragment
def _by_plotly_chart(session: Session) -> None:
    """The same figures in the same places; computing is run ahead here too, so that only the way to draw differs."""

    def advance() -> None:
        session.seek(session.cursor + 1)

    st.button("Step", on_click=advance, shortcut="Right")
    session.want(session.cursor + 4)
    session.wait_for(session.cursor, 10)
    scene = Scene(
        session.steps,
        session.cursor,
        session.engine.initial,
        session.engine.config,
        LIGHT,
        "en",
        prompts=session.prompts,
    )
    figures = {name: part["figure"] for name, part in parts(scene, first_open("hash")).items() if "figure" in part}
    for names in (("tables", "pool", "kernel"), ("schedule", "queue")):
        for column, name in zip(st.columns(len(names)), names, strict=True):
            figure = figures[name]
            figure["layout"] |= {"meta": session.cursor, "height": 330}
            column.plotly_chart(figure, key=name, theme=None, config={"displayModeBar": False})


assert {"tables", "pool", "kernel", "schedule", "queue"} <= {panel.name for panel in PANELS}

if get_script_run_ctx(suppress_warning=True) is None:
    app = st.App(__file__, routes=routes())
else:
    page()
