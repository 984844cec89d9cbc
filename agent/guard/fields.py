"""The grammar of the allow-list: what a field may hold. Deny by default; each check returns what will be passed on."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.guard.errors import Refused, shown


class Rule(ABC):
    """What one field may hold."""

    @abstractmethod
    def check(self, value: Any, where: str) -> Any:
        """The value to pass on. Raises Refused."""


@dataclass(frozen=True)
class Exactly(Rule):
    """One of a few values, of the same type: 1 is not true."""

    values: Sequence[Any]

    def check(self, value: Any, where: str) -> Any:
        if not any(type(value) is type(each) and value == each for each in self.values):
            raise Refused(where, shown(value), " or ".join(_spelled(each) for each in self.values))
        return value


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number within bounds."""

    minimum: int
    maximum: int

    def check(self, value: Any, where: str) -> Any:
        if type(value) is not int or not self.minimum <= value <= self.maximum:
            raise Refused(where, shown(value), f"{self.minimum} to {self.maximum}")
        return value


@dataclass(frozen=True)
class Matching(Rule):
    """A text of which the whole matches."""

    pattern: re.Pattern[str]
    allowed: str

    def check(self, value: Any, where: str) -> Any:
        if not isinstance(value, str) or not self.pattern.fullmatch(value):
            raise Refused(where, shown(value), self.allowed)
        return value


@dataclass(frozen=True)
class Words(Rule):
    """Texts of the customer's: any characters but NUL. They are never shown."""

    maximum: int
    length: int

    def check(self, value: Any, where: str) -> Any:
        if not isinstance(value, list) or len(value) > self.maximum:
            raise Refused(where, shown(value), f"a list of at most {self.maximum} texts")
        for index, word in enumerate(value):
            if not isinstance(word, str) or len(word) > self.length or "\0" in word:
                raise Refused(f"{where}[{index}]", "something else", f"a text of at most {self.length} characters")
        return list(value)


@dataclass(frozen=True)
class Table(Rule):
    """An object whose fields are all known. Null means "not there" and is not passed on."""

    rules: Mapping[str, Rule]
    required: frozenset[str] = field(default_factory=frozenset)

    def check(self, value: Any, where: str) -> Any:
        if not isinstance(value, dict):
            raise Refused(where or "body", shown(value), "an object")
        passed = {}
        for name, inner in value.items():
            path = f"{where}.{name[:64]}" if where else name[:64]
            rule = self.rules.get(name)
            if rule is None:
                raise Refused(path, shown(inner), "no field of this name")
            if inner is not None:
                passed[name] = rule.check(inner, path)
        for name in sorted(self.required - set(passed)):
            raise Refused(f"{where}.{name}" if where else name, "nothing", "a value, always")
        return passed


def _spelled(value: Any) -> str:
    return "an empty list" if value == [] else shown(value) if not isinstance(value, list | dict) else _compact(value)


def _compact(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_spelled(inner)}" for name, inner in value.items()) + "}"
    return "[" + ", ".join(_spelled(each) for each in value) + "]"
