"""The one error of a message that does not hold to the protocol."""

_SHOWN = 80


class ProtocolError(ValueError):
    """A message was refused.

    `field` is the dotted path ("attempts.0.state"), `found` a bounded rendering of what stood there, `allowed` what may
    stand there. None of the three carries more than a few characters of the value, so that they may be logged.
    """

    def __init__(self, field: str, found: object, allowed: str) -> None:
        self.field = field
        self.found = found if isinstance(found, str) else _shown(found)
        self.found = self.found[:_SHOWN]
        self.allowed = allowed
        super().__init__(f"{field or 'message'}: found {self.found}, allowed: {allowed}")

    def under(self, prefix: str) -> "ProtocolError":
        """The same error, seen from the message that contains this field."""
        path = f"{prefix}.{self.field}" if self.field else prefix
        return ProtocolError(path, self.found, self.allowed)


def _shown(value: object) -> str:
    """Containers by kind and size only: a secret in an environment must not travel in an error text."""
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    if isinstance(value, str):
        return f"a text of {len(value)} characters"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return "a very large number"
    return repr(value)
