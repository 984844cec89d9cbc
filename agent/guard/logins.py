"""X-Registry-Auth: a customer's login, for the pull of a private image and for nothing else. It is never shown."""

import base64
import binascii
import re

from agent.guard.errors import Refused
from agent.guard.strict import json_read, json_write
from agent_protocol.logins import PASSWORD_ALLOWED, USERNAME_ALLOWED, is_password, is_username, login_address

_WHERE = "header x-registry-auth"
# The engine reads this alphabet (RFC 4648, section 5); what decodes to the same bytes in two spellings is refused below.
_ENCODED = re.compile(r"[A-Za-z0-9_-]+={0,2}")
# No identitytoken, registrytoken, auth or email: each would be a way around what is checked here.
_FIELDS = ("password", "serveraddress", "username")


def login_check(header: str, registry: str) -> str:
    """The header to pass on, written anew from what was understood. Raises Refused."""
    login = _read(header)
    if sorted(login) != list(_FIELDS):
        raise Refused(_WHERE, "other fields", " ".join(_FIELDS))
    username, password = login["username"], login["password"]
    if not isinstance(username, str) or not is_username(username):
        raise Refused(f"{_WHERE}: username", "something else", USERNAME_ALLOWED)
    if not isinstance(password, str) or not is_password(password):
        raise Refused(f"{_WHERE}: password", "something else", PASSWORD_ALLOWED)
    if login["serveraddress"] != login_address(registry):
        raise Refused(f"{_WHERE}: serveraddress", "something else", login_address(registry))
    return base64.urlsafe_b64encode(json_write(login)).decode("ascii")


def _read(header: str) -> dict[str, object]:
    try:
        content = base64.urlsafe_b64decode(header) if _ENCODED.fullmatch(header) else b""
        if base64.urlsafe_b64encode(content).decode("ascii") == header:
            return json_read(content)
    except (binascii.Error, Refused):
        # The reason would name what stood there.
        pass
    raise Refused(_WHERE, "something else", "one JSON object in base64, as the engine reads it")
