"""What the server was started with: `streamlit run app.py -- --model PATH`, or KVSCOPE_MODEL."""

from __future__ import annotations

import argparse
import os
import sys
from functools import cache

import torch

from engine.model.weights import find_smollm2
from pages.ui.models import SMOLLM2, TOY


@cache
def asked_model() -> str | None:
    """The model named at start, if any."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--model")
    known, _ = parser.parse_known_args(sys.argv[1:])
    return known.model or os.environ.get("KVSCOPE_MODEL") or None


def default_model() -> str:
    """What a visitor starts with: the model named at start, else SmolLM2 if its file is here, else the toy."""
    return asked_model() or (SMOLLM2 if find_smollm2() is not None else TOY)


def use_threads() -> None:
    """KVSCOPE_THREADS, else all cores but one: two compute threads that fight a browser for two cores spin for ms."""
    asked = os.environ.get("KVSCOPE_THREADS", "")
    torch.set_num_threads(int(asked) if asked.isdigit() and int(asked) else max(1, (os.cpu_count() or 2) - 1))
