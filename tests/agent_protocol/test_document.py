"""The page about the protocol names what the code has, no more and no less."""

import re
from pathlib import Path

from agent.errors import ExitCode
from agent_protocol.checks import HOST_CHECKS
from agent_protocol.reasons import BENCHMARK_FAILURES, DEGRADATIONS, REASONS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "agent-protocol.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Cells of the table whose heading begins so."""
    table = PAGE.split(f"| {heading}", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in row.strip("|").split(" | ")] for row in table]


def test_reasons_are_told_as_they_are() -> None:
    def word(yes: bool) -> str:
        return "yes" if yes else "no"

    assert rows("code | owner") == [
        [each.code, str(each.owner), word(each.credited), word(each.scored), word(each.retried), each.sentence]
        for each in REASONS.values()
    ]


def test_the_other_tables_are_told_as_they_are() -> None:
    assert dict(rows("benchmark failure")) == BENCHMARK_FAILURES
    assert dict(rows("degraded")) == DEGRADATIONS
    assert rows("id | needed") == [[check.id, check.required, check.purpose] for check in HOST_CHECKS]
    assert [int(row[0]) for row in rows("exit code")] == sorted(ExitCode)


def test_every_endpoint_is_named() -> None:
    paths = ("enrol", "credential", "sync", "bell", "events", "attempts/<id>/logs", "attempts/<id>/secrets")
    for path in (*paths, "bench/<run_id>/start"):
        assert re.search(rf"/agent/v1/{re.escape(path)}", PAGE), path
