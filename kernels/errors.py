"""The room's one error."""

from __future__ import annotations


class KernelError(ValueError):
    """A launch was refused before it began. `field` names the argument that does not fit."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(f"{field}: {message}")


def expect(field: str, what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise KernelError(field, f"{what} is {got}, but it must be {wanted}")
