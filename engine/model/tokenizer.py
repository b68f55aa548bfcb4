"""Text ↔ token ids, and the model's own chat format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tokenizers
from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.model.errors import ModelError

_REPLACEMENT = "\ufffd"


class Tokenizer:
    """A `tokenizers.Tokenizer` with the model's chat template and end-of-text ids."""

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        eos_ids: frozenset[int],
        chat_template: str | None = None,
        bos_token: str = "",
        eos_token: str = "",
    ) -> None:
        self._tokenizer = tokenizer
        self._chat_template = chat_template
        self._special = {"bos_token": bos_token, "eos_token": eos_token}
        self.eos_ids = eos_ids

    @classmethod
    def from_json(
        cls, text: str, eos_ids: frozenset[int], chat_template: str | None, bos_token: str = "", eos_token: str = ""
    ) -> Tokenizer:
        """From the text of a `tokenizer.json`. Raises ModelError "model.bad_tokenizer" if it is not one."""
        try:
            inner = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise ModelError("model.bad_tokenizer", reason=str(error)) from error
        return cls(inner, eos_ids, chat_template, bos_token, eos_token)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return self._tokenizer.get_vocab_size()

    @property
    def has_chat_template(self) -> bool:
        return self._chat_template is not None

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, by the model's own rules (a model that starts every text with a BOS gets one)."""
        return list(self._tokenizer.encode(text).ids)

    def decode(self, ids: Sequence[int], *, keep_special: bool = False) -> str:
        """Text of `ids`. Special tokens such as <|im_end|> are left out unless asked for."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=not keep_special)

    def render_chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The text the model sees for a chat of {"role", "content"} messages, ready for the assistant's turn.

        Rendered in a sandbox, since a template comes with the weights. Raises ModelError if the model has no chat
        template or the template refuses the messages.
        """
        if self._chat_template is None:
            raise ModelError("model.no_chat_template")
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _raise_exception
        try:
            template = environment.from_string(self._chat_template)
            return template.render(messages=list(messages), add_generation_prompt=True, **self._special)
        except TemplateError as error:
            raise ModelError("model.chat_template", reason=str(error)) from error

    def apply_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of `render_chat(messages)`; the template brings its own special tokens."""
        return list(self._tokenizer.encode(self.render_chat(messages), add_special_tokens=False).ids)

    def token_text(self, token_id: int) -> str:
        """One token for display: its text, a special token's name, or `<0xE4>` for part of a character.

        An id without a token (weights are often padded to a round vocabulary size) is shown as `<#id>`.
        """
        piece = self._tokenizer.id_to_token(token_id) if token_id >= 0 else None
        if piece is None:
            return f"<#{token_id}>"
        text = self.decode([token_id], keep_special=True)
        if _REPLACEMENT not in text:
            return text
        return "".join(f"<0x{_BYTE_OF[char]:02X}>" if char in _BYTE_OF else char for char in piece)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _byte_of() -> dict[str, int]:
    """Inverse of GPT-2's byte → printable character table, which byte-level vocabularies are written in."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(moved)}


_BYTE_OF = _byte_of()
