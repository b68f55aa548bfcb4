"""The page's HTML asks for plotly.js early, and every other answer passes untouched."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from pages.ui.vendor import EarlyPlotly

HTML = b"<html><head><title>t</title></head><body></body></html>"


def answer(chunks: list[bytes], accept: bytes) -> tuple[list[Message], Scope]:
    """What a client gets from a server that answers in `chunks`, and the request that server saw."""
    seen: list[Scope] = []
    got: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        length = str(sum(map(len, chunks))).encode()
        headers = [(b"content-type", b"text/html"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number, chunk in enumerate(chunks, start=1):
            await send({"type": "http.response.body", "body": chunk, "more_body": number < len(chunks)})

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        got.append(message)

    scope = {"type": "http", "headers": [(b"accept", accept), (b"accept-encoding", b"gzip")]}
    asyncio.run(EarlyPlotly(app)(scope, receive, send))
    return got, seen[0]


@pytest.mark.parametrize("chunks", [[HTML], [HTML[:5], HTML[5:]], [b""]])
def test_html_gets_the_script_and_a_true_length(chunks: list[bytes]) -> None:
    got, request = answer(chunks, b"text/html,*/*")
    body = b"".join(message["body"] for message in got[1:])
    assert body.count(b'<script async src="/vendor/plotly.min.js"></script></head>') == (len(b"".join(chunks)) > 0)
    length = dict(got[0]["headers"]).get(b"content-length")
    assert length in ((str(len(body)).encode(),) if len(chunks) == 1 else (None,))
    assert b"accept-encoding" not in dict(request["headers"])


def test_anything_else_passes_untouched() -> None:
    got, request = answer([HTML], b"*/*")
    assert got[1]["body"] == HTML
    assert dict(request["headers"])[b"accept-encoding"] == b"gzip"
