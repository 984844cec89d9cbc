"""A job's output as text for people: any bytes in, no terminal tricks out. Pure."""

from __future__ import annotations

import re

LOG_LIMIT_BYTES = 16 * 1024 * 1024
"""Per attempt; later output is dropped and the page says so."""

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"  # two-character escapes and a lone ESC
)
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)(?=[^\n])")


def clean(content: bytes) -> str:
    """UTF-8 with replacement marks, no escape sequences, no control or direction-override characters.

    A carriage return inside a line keeps what came last, as a terminal would (progress bars).
    """
    text = _ESCAPES.sub("", content.decode("utf-8", errors="replace"))
    text = _OVERWRITTEN.sub("", text.replace("\r\n", "\n")).replace("\r", "")
    return _CONTROLS.sub("", text)
