"""Errors about models and weights, with their own message table."""

from __future__ import annotations

from engine.errors import UserError
from engine.model.messages import MESSAGES


class ModelError(UserError):
    """A model cannot be found, read or used. Keys start with "model."."""

    def catalogue(self) -> dict[str, tuple[str, str]]:
        """The model's own part of the message catalogue."""
        return MESSAGES
