"""A message's body on a page: text as text, JSON indented, anything else as bytes."""

from __future__ import annotations

import codecs
import json
import re
from html import escape

from embermq.http.console.words import size

BODY_BYTES = 2048  # that are looked at; of longer ones the beginning
TEXT_CHARACTERS = 1000  # that are shown
HEX_BYTES, HEX_ROW = 256, 16
JSON_LINE_CHARACTERS = 60  # so much stays in one line
JSON_DEPTH_MAX = 12
JSON_LINES_MAX = 60

# What no text has, and what turns it round without being seen.
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+')


def body_html(beginning: bytes, body_size: int) -> tuple[str, str]:
    """What it is, in words; and how it looks. `beginning` is up to BODY_BYTES of it."""
    if not body_size:
        return "empty body", ""
    text = text_of(beginning, is_whole=len(beginning) == body_size)
    look = ""
    if text is None:
        shown, shown_size, kind = as_hex(beginning[:HEX_BYTES]), min(len(beginning), HEX_BYTES), ""
        look = ' class="hex"'
    elif len(beginning) == body_size and (lines := as_json(text)) is not None:
        shown, shown_size, kind = lines, body_size, " of JSON"
    else:
        shown = text[:TEXT_CHARACTERS]
        shown_size, kind = len(shown.encode()), " of text"
    rest = f", here the first {size(shown_size)}" if shown_size < body_size else ""
    return f"{size(body_size)}{kind}{rest}", f"<pre{look}>{escape(shown)}</pre>"


def text_of(data: bytes, is_whole: bool) -> str | None:
    """UTF-8 that can be read; its end may be in the middle of a character."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data, is_whole)
    except UnicodeDecodeError:
        return None
    return None if CONTROL.search(text) else text


def as_hex(data: bytes) -> str:
    rows = []
    for at in range(0, len(data), HEX_ROW):
        row = data[at : at + HEX_ROW]
        seen = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{at:04x}  {row.hex(' '):<{3 * HEX_ROW - 1}}  {seen}")
    return "\n".join(rows)


def as_json(text: str) -> str | None:
    """In lines; None if it is no object or list, or not a short one. Only white space is changed."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    if len(text) <= JSON_LINE_CHARACTERS and "\n" not in text:
        return text
    out: list[str] = []
    depth = lines = 0
    before = ""
    for token in TOKEN.findall(text):
        if token in ("}", "]"):
            depth -= 1
        if (token in ("}", "]") and before not in ("{", "[")) or (
            before in ("{", "[", ",") and token not in ("}", "]")
        ):
            out.append("\n" + "  " * depth)
            lines += 1
        if token in ("{", "["):
            depth += 1
        if depth > JSON_DEPTH_MAX or lines > JSON_LINES_MAX:
            return None
        out.append(token + " " if token == ":" else token)
        before = token
    return "".join(out)
