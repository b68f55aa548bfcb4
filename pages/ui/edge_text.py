"""What the edges of a replayed radix tree say: text where the recording's tokenizer is here, else token ids."""

from __future__ import annotations

from functools import cache

from engine.errors import UserError
from engine.model.source import ignore_progress
from engine.model.weights import find_smollm2, open_model
from pages.figures.radix_tree import Labeller, token_ids


@cache
def recorded_text() -> Labeller:
    """Of SmolLM2, whose tokens are replayed; its file is converted at the first use of the model, not here."""
    path = find_smollm2()
    if path is None:
        return token_ids
    try:
        return open_model(path, ignore_progress).source.tokenizer().decode
    except UserError:
        return token_ids
