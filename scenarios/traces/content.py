"""Bytes → text, by content and never by file name."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib

from scenarios.errors import TraceError

MEGABYTE = 1_000_000
MAX_BYTES = 5 * MEGABYTE
MAX_TEXT_BYTES = 50 * MEGABYTE  # of an unpacked gzip file; a small file may unpack to anything

_GZIP = b"\x1f\x8b"
_MAGIC = {
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"RIFF": "RIFF",
    b"%PDF": "PDF",
    b"PK\x03\x04": "ZIP / XLSX",
    b"PAR1": "Parquet",
    b"SQLite": "SQLite",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"7z\xbc\xaf": "7z",
}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def to_text(data: bytes, name: str) -> str:
    """The text of a file: unpacked if gzip, decoded as its byte order mark says, else as UTF-8."""
    if len(data) > MAX_BYTES:
        raise TraceError("trace.too_big", file=name, limit=MAX_BYTES // MEGABYTE)
    if data.startswith(_GZIP):
        data = _unpack(data, name)
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise TraceError("trace.other_kind", file=name, what=what)
    text = _decode(data, name)
    if "\0" in text:
        raise TraceError("trace.binary", file=name)
    if not text.strip():
        raise TraceError("trace.empty", file=name)
    return text


def _unpack(data: bytes, name: str) -> bytes:
    try:
        with gzip.open(io.BytesIO(data)) as stream:
            unpacked = stream.read(MAX_TEXT_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError("trace.bad_gzip", file=name) from error
    if len(unpacked) > MAX_TEXT_BYTES:
        raise TraceError("trace.unpacks_too_big", file=name, limit=MAX_TEXT_BYTES // MEGABYTE)
    return unpacked


def _decode(data: bytes, name: str) -> str:
    try:
        if data.startswith(_UTF16):
            return data.decode("utf-16")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise TraceError("trace.binary", file=name) from error
        line = data.count(b"\n", 0, error.start) + 1
        raise TraceError("trace.not_utf8", file=name, line=line) from error
