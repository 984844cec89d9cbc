"""The parameters of a JSON-RPC call: a list, the last entry of which may be options."""

from __future__ import annotations

from typing import Any

from solders.pubkey import Pubkey

from billing.chain import errors
from billing.chain.localnet.node import COMMITMENTS, Node


class MethodError(Exception):
    """A JSON-RPC error answer."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def to_json(self) -> dict[str, Any]:
        body = {"code": self.code, "message": str(self)}
        return body if self.data is None else body | {"data": self.data}


def invalid(text: str) -> MethodError:
    return MethodError(errors.CODE_INVALID_PARAMS, f"Invalid param: {text}")


class Params:
    """Typed access to positional parameters and options; what does not fit is a MethodError."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values
        self.config: dict[str, Any] = next((value for value in reversed(values) if isinstance(value, dict)), {})

    def text(self, index: int, name: str) -> str:
        value = self._values[index] if index < len(self._values) else None
        if not isinstance(value, str):
            raise invalid(f"{name}: found {value!r}, a string is needed")
        return value

    def texts(self, index: int, name: str, limit: int) -> list[str]:
        value = self._values[index] if index < len(self._values) else None
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise invalid(f"{name}: a list of strings is needed")
        if len(value) > limit:
            raise invalid(f"{name}: Too many inputs provided; max {limit}")
        return value

    def integer(self, index: int, name: str, low: int, high: int) -> int:
        value = self._values[index] if index < len(self._values) else None
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise invalid(f"{name}: found {value!r}, allowed {low} to {high}")
        return value

    def address(self, index: int) -> Pubkey:
        return self.parse_address(self.text(index, "address"))

    @staticmethod
    def parse_address(text: str) -> Pubkey:
        try:
            return Pubkey.from_string(text)
        except ValueError as error:
            raise invalid(str(error)) from error

    def mint_filter(self, index: int) -> Pubkey | None:
        """`{"mint": …}` or `{"programId": …}`; only the first narrows, there is one token program here."""
        value = self._values[index] if index < len(self._values) else None
        if not isinstance(value, dict) or not {"mint", "programId"} & set(value):
            raise invalid("filter: mint or programId is needed")
        return self.parse_address(str(value["mint"])) if "mint" in value else None

    def commitment(self, node: Node, *, history: bool = False) -> str:
        """The commitment asked for, finalized by default. `history` methods know none below confirmed."""
        name = self.checked_commitment(self.config.get("commitment", "finalized"))
        if history and name == "processed":
            raise MethodError(errors.CODE_INVALID_PARAMS, "Method does not support commitment below `confirmed`")
        slot, least = node.slot_at(name), self.config.get("minContextSlot")
        if least is not None and slot < least:
            raise MethodError(
                errors.CODE_CONTEXT_SLOT_NOT_REACHED,
                "Minimum context slot has not been reached",
                {"contextSlot": slot},
            )
        return name

    @staticmethod
    def checked_commitment(name: Any) -> str:
        if name not in COMMITMENTS:
            raise invalid(f"commitment: found {name!r}, allowed {', '.join(COMMITMENTS)}")
        return str(name)

    def require_base64(self) -> None:
        form = self.config.get("encoding", "base58")
        if form != "base64":
            raise invalid(f"encoding: found {form!r}, this network gives account data as base64 only")
