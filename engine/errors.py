"""Errors a user may meet: a catalogue key plus its parameters, so that a page can say it in the visitor's language."""

from __future__ import annotations

from engine.messages import MESSAGES


class UserError(ValueError):
    """One clear sentence: what is wrong, where, and what to do. `str()` is English; `key` and `params` translate it."""

    def __init__(self, key: str, /, **params: object) -> None:
        self.key = key
        self.params = params
        super().__init__(key)

    def __str__(self) -> str:
        return self.catalogue()[self.key][0].format(**self.params)

    def catalogue(self) -> dict[str, tuple[str, str]]:
        """The table that holds this error's key; a room above engine overrides it with its own."""
        return MESSAGES
