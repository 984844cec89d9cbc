"""A customer's login at the registry of a private image: what form, wire and guard allow in it."""

from agent_protocol.images import DEFAULT_REGISTRY

# Longer than the longest that registries give out (robot accounts; tokens of some hundred characters).
USERNAME_LENGTH = 255
PASSWORD_LENGTH = 2048
# Docker Hub's logins are known under this address, for historical reasons; everybody else's under the registry's name.
_HUB_ADDRESS = "https://index.docker.io/v1/"


def is_printable(text: str) -> bool:
    """Whether it is printable ASCII throughout: what every registry takes, in whatever header it travels."""
    return text.isascii() and text.isprintable()


def is_username(text: str) -> bool:
    """RFC 7617: what stands before the first colon is the name, so it holds none."""
    return 1 <= len(text) <= USERNAME_LENGTH and is_printable(text) and ":" not in text


def is_password(text: str) -> bool:
    return 1 <= len(text) <= PASSWORD_LENGTH and is_printable(text)


USERNAME_ALLOWED = f"1 to {USERNAME_LENGTH} printable ASCII characters, no colon"
PASSWORD_ALLOWED = f"1 to {PASSWORD_LENGTH} printable ASCII characters"


def login_address(registry: str) -> str:
    """The `serveraddress` under which an engine takes a login for this registry."""
    return _HUB_ADDRESS if registry == DEFAULT_REGISTRY else registry
