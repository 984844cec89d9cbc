"""A job's output, as bytes at an offset."""

import base64
import binascii
from dataclasses import dataclass
from typing import ClassVar

from agent_protocol.errors import ProtocolError
from agent_protocol.fields import Boolean, Message, Text, integer, text, wire
from agent_protocol.messages.plan import TOKEN_LENGTH

MAX_LOG_CHUNK_BYTES = 64 * 1024
_MAX_BASE64 = (MAX_LOG_CHUNK_BYTES + 2) // 3 * 4


@dataclass(frozen=True, kw_only=True)
class LogChunk(Message):
    """POST /agent/v1/attempts/<attempt_id>/logs. `final`: nothing follows (a final chunk may be empty)."""

    token: str = text(TOKEN_LENGTH, min_length=1)
    offset: int = integer()
    data: str = wire(Text(_MAX_BASE64))
    final: bool = wire(Boolean())

    @classmethod
    def of(cls, *, token: str, offset: int, content: bytes, final: bool) -> "LogChunk":
        """A chunk around at most MAX_LOG_CHUNK_BYTES bytes."""
        return cls(token=token, offset=offset, data=base64.b64encode(content).decode("ascii"), final=final)

    def content(self) -> bytes:
        """The bytes; `check` has made sure that they can be decoded."""
        return base64.b64decode(self.data, validate=True)

    def check(self) -> None:
        try:
            length = len(base64.b64decode(self.data, validate=True))
        except (binascii.Error, ValueError):
            raise ProtocolError("data", "something else", "base64") from None
        if length > MAX_LOG_CHUNK_BYTES:
            raise ProtocolError("data", f"{length} bytes", f"at most {MAX_LOG_CHUNK_BYTES} bytes")


@dataclass(frozen=True, kw_only=True)
class LogReply(Message):
    """How many bytes of the log the platform has."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    next_offset: int = integer()
