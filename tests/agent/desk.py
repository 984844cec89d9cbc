"""The platform's side of a benchmark's challenge, for agents that are measured without a platform."""

from typing import Any

from agent_protocol.challenge import merkle_root_from
from agent_protocol.messages import BenchCommit, BenchCommitted, BenchOpen, BenchOpened, BenchStart, BenchStarted


class FakeDesk:
    """Asks for rows and holds the answers against what was committed; whether the rows are right is the platform's trade."""

    SEED = "0f" * 32

    def __init__(self, rows: tuple[tuple[int, int], ...] = ((0, 0), (1, 3))) -> None:
        self.rows = rows
        self.calls: list[str] = []
        self.roots: dict[str, tuple[str, ...]] = {}
        self.opened: dict[str, BenchOpen] = {}
        self.size = 16

    def bench_start(self, run_id: str, start: BenchStart) -> BenchStarted:
        self.calls.append("start")
        return BenchStarted(seed=self.SEED)

    def bench_commit(self, run_id: str, commit: BenchCommit) -> BenchCommitted:
        self.calls.append("commit")
        self.roots[run_id] = commit.roots
        return BenchCommitted.parse({"openings": [{"round": number, "row": row} for number, row in self.rows]})

    def bench_open(self, run_id: str, opening: BenchOpen) -> BenchOpened:
        self.calls.append("open")
        for each in opening.openings:
            path = [bytes.fromhex(step) for step in each.path]
            found = merkle_root_from(bytes.fromhex(each.leaf), each.row, self.size, path)
            assert found is not None
            assert found.hex() == self.roots[run_id][each.round]
        self.opened[run_id] = opening
        return BenchOpened(rows=len(opening.openings))

    def answer(self, run_id: str, step: str, body: Any) -> dict[str, Any]:
        """The same over HTTP."""
        if step == "start":
            return self.bench_start(run_id, BenchStart.parse(body)).to_dict()
        if step == "commit":
            return self.bench_commit(run_id, BenchCommit.parse(body)).to_dict()
        return self.bench_open(run_id, BenchOpen.parse(body)).to_dict()
