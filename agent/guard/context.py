"""One request once its call is known, and what can become of it."""

from dataclasses import dataclass, field
from typing import Any

from agent.guard.engine import Answer, Engine
from agent.guard.policy import Policy
from agent.guard.workspace import Workspaces


@dataclass(frozen=True)
class Reply:
    """A whole answer of the guard's."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"


@dataclass(frozen=True)
class Relay:
    """An answer of the engine's, to be passed on as it comes."""

    method: str
    path: str
    query: dict[str, str]
    login: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Context:
    """One request, once its call is known. `query` holds checked values; `body` and `login` are what came."""

    engine: Engine
    policy: Policy
    workspaces: Workspaces
    prefix: str
    version: int | None
    query: dict[str, str]
    name: str
    body: bytes = field(repr=False)
    login: str | None = field(default=None, repr=False)

    def ask(self, method: str, path: str, **options: Any) -> Answer:
        return self.engine.call(method, f"{self.prefix}{path}", **options)


class Unanswered(Exception):
    """The engine refused a question of the guard's own; its answer is passed on."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer
