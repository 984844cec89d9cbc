"""JSON and query strings, read so that the engine cannot read them differently.

Go's decoder matches field names whatever their case and takes the last of several, and its query parser is lenient too.
So doubles are refused, and what is passed on is always written anew from what was understood.
"""

import json
import re
from typing import Any, NoReturn
from urllib.parse import unquote, urlencode

from agent.guard.errors import Refused, shown

MAX_DEPTH = 8
_PAIR = re.compile(r"([A-Za-z_]{1,32})=([A-Za-z0-9._~%+*,:/@-]*)")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def json_read(body: bytes) -> dict[str, Any]:
    """The object in a body. Raises Refused."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant)
        # Half of a surrogate pair can be written in JSON, and every reader makes something else of it.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise Refused("body", "something else", "one JSON object in UTF-8") from None
    if not isinstance(value, dict):
        raise Refused("body", shown(value), "one JSON object in UTF-8")
    _depth_check(value, 1)
    return value


def json_write(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: set[str] = set()
    for name, _ in pairs:
        if name.casefold() in seen:
            raise Refused(name[:64], "the same field twice", "each field once, whatever its case")
        seen.add(name.casefold())
    return dict(pairs)


def _constant(name: str) -> NoReturn:
    raise Refused("body", name, "finite numbers")


def _depth_check(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Refused("body", "deeper objects", f"{MAX_DEPTH} levels")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        _depth_check(each, depth + 1)


def query_read(text: str) -> dict[str, str]:
    """`a=1&b=2` with each name once. Raises Refused."""
    found: dict[str, str] = {}
    for part in text.split("&") if text else ():
        pair = _PAIR.fullmatch(part)
        if pair is None or _ESCAPE.search(pair[2]):
            raise Refused("query", shown(part), "name=value")
        if pair[1].casefold() in (name.casefold() for name in found):
            raise Refused(f"query.{pair[1]}", "the same parameter twice", "each parameter once")
        try:
            found[pair[1]] = unquote(pair[2].replace("+", " "), errors="strict")
        except UnicodeDecodeError:
            raise Refused(f"query.{pair[1]}", "bytes that are not UTF-8", "UTF-8") from None
    return found


def query_write(query: dict[str, str]) -> str:
    return f"?{urlencode(query)}" if query else ""
