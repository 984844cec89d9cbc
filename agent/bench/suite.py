"""Benchmarks on real cards: the suite (agent/suite) measures and multiplies, this drives it and talks to the platform."""

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from agent.bench.base import BenchmarkRefused, Cancelled, ChallengeDesk, Measurement
from agent.bench.challenge import Chain, Row, challenge_answer
from agent_protocol.challenge import seeds_of
from agent_protocol.errors import ProtocolError
from agent_protocol.messages import BenchmarkConditions, BenchmarkMetrics, BenchmarkPlan
from agent_protocol.reasons import BENCHMARK_FAILURES

SUITE_VERSIONS = frozenset({1})
_LOOK_EVERY_S = 0.25
# Where on the way to 100 % the parts begin: figures take the longest.
_CHALLENGE_AT, _HOST_AT = 50, 75

log = logging.getLogger("agent.bench")


class SuiteRun(Protocol):
    """One run of the suite, in a container or as a child."""

    def ended(self) -> bool:
        """Whether it is over; then `output` is complete."""

    def output(self) -> bytes:
        """Everything it has printed."""

    def close(self) -> None:
        """End it if it still runs, and remove what it left."""


class SuiteLauncher(Protocol):
    """Where the suite runs. All raise BenchmarkRefused."""

    def prepare(self, plan: BenchmarkPlan, cancelled: Cancelled) -> None:
        """Have everything at hand, so that starting is quick."""

    def start(self, plan: BenchmarkPlan, arguments: Sequence[str]) -> SuiteRun:
        """Start the suite with the plan's GPU, and no other."""

    def names(self) -> frozenset[str]:
        """Containers in use at the moment."""


class HostMeasure(Protocol):
    """Something about the machine (storage, the line)."""

    def measure(self, plan: BenchmarkPlan, cancelled: Cancelled) -> "HostFigures":
        """Its figures. Raises BenchmarkRefused only when cancelled: what cannot be measured has a reason."""


class HostFigures:
    """`metrics` by name of agent_protocol's metrics, `details` by any name; `unmeasured`: why there is none."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.details: dict[str, float] = {}
        self.unmeasured: dict[str, str] = {}


class SuiteBenchmark:
    def __init__(self, launcher: SuiteLauncher, desk: ChallengeDesk, host: Sequence[HostMeasure]) -> None:
        self._launcher = launcher
        self._desk = desk
        self._host = host

    def names(self) -> frozenset[str]:
        return self._launcher.names()

    def run(self, plan: BenchmarkPlan, progress: Callable[[int], None], cancelled: Cancelled) -> Measurement:
        if plan.suite_version not in SUITE_VERSIONS:
            raise BenchmarkRefused("unsupported_suite")
        suite = _Suite(self._launcher, plan, cancelled)
        self._launcher.prepare(plan, cancelled)
        lines = suite.run(
            ["figures", "--gpu", plan.gpu_uuid],
            lambda line: progress(int(line.get("percent", 0)) * _CHALLENGE_AT // 100),
        )
        challenge_answer(self._desk, plan, _SuiteProver(suite, plan), cancelled)
        progress(_HOST_AT)
        found = _figures_of(lines)
        for number, host in enumerate(self._host):
            more = host.measure(plan, cancelled)
            found.metrics |= more.metrics
            found.details |= more.details
            found.unmeasured |= more.unmeasured
            progress(_HOST_AT + (100 - _HOST_AT) * (number + 1) // len(self._host))
        return _measurement(lines, found)


class _Suite:
    """Runs of the suite for one plan."""

    def __init__(self, launcher: SuiteLauncher, plan: BenchmarkPlan, cancelled: Cancelled) -> None:
        self._launcher = launcher
        self._plan = plan
        self._cancelled = cancelled

    def run(
        self, arguments: Sequence[str], on_progress: Callable[[dict[str, Any]], None] | None = None
    ) -> list[dict[str, Any]]:
        """The lines of a run that came to its end. Raises BenchmarkRefused with the suite's own reason."""
        started = self._launcher.start(self._plan, ["--suite-version", str(self._plan.suite_version), *arguments])
        try:
            seen = 0
            while not started.ended():
                lines = _lines(started.output())
                for line in lines[seen:]:
                    if on_progress is not None and line["event"] == "progress":
                        on_progress(line)
                seen = len(lines)
                if self._cancelled(_LOOK_EVERY_S):
                    raise BenchmarkRefused("interrupted")
            lines = _lines(started.output())
        finally:
            started.close()
        for line in lines:
            if line["event"] == "failed":
                reason = str(line.get("reason"))
                raise BenchmarkRefused(reason if reason in BENCHMARK_FAILURES else "unknown")
        if not any(line["event"] == "done" for line in lines):
            log.error("the suite ended without a word", extra={"part": arguments[0]})
            raise BenchmarkRefused("unknown")
        return lines


def _lines(output: bytes) -> list[dict[str, Any]]:
    """The suite's JSON lines. Libraries print between them: what is no line of ours is skipped, half a line waits."""
    found = []
    for text in output.split(b"\n")[:-1]:
        if text.startswith(b'{"event"'):
            try:
                line = json.loads(text)
            except ValueError:
                continue
            found.append(line)
    return found


class _SuiteProver:
    def __init__(self, suite: _Suite, plan: BenchmarkPlan) -> None:
        self._suite = suite
        self._challenge = plan.challenge

    def chain(self, seed: str) -> Chain:
        asked = self._challenge
        arguments = ["chain", "--nonce", asked.nonce, "--seed", seed, "--n", str(asked.n)]
        lines = self._suite.run([*arguments, "--rounds", str(asked.rounds)])
        with _Readable():
            (answer,) = (line for line in lines if line["event"] == "chain")
            return Chain(tuple(bytes.fromhex(root) for root in answer["roots"]), float(answer["product_s"]))

    def open(self, seed: str, chain: Chain, rows: Sequence[Row]) -> list[tuple[bytes, list[bytes]]]:
        with _Readable():
            seeds = [each.hex() for each in seeds_of(self._challenge.nonce, seed, chain.roots)]
            named = [f"{seeds[number]}:{row}" for number, row in rows]
        lines = self._suite.run(["open", "--n", str(self._challenge.n), *named])
        with _Readable():
            opened = {f"{line['seed']}:{line['row']}": line for line in lines if line["event"] == "opening"}
            return [
                (bytes.fromhex(opened[name]["leaf"]), [bytes.fromhex(step) for step in opened[name]["path"]])
                for name in named
            ]


class _Readable:
    """What an image says need not be what we expect: then there are no figures, and no crash."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, (KeyError, ValueError, TypeError, IndexError, ProtocolError)):
            log.error("the suite cannot be understood", extra={"why": type(error).__name__})
            raise BenchmarkRefused("unknown") from None


def _figures_of(lines: list[dict[str, Any]]) -> HostFigures:
    found = HostFigures()
    with _Readable():
        for line in lines:
            if line["event"] != "figure":
                continue
            name = str(line["name"])
            if line["value"] is None:
                found.unmeasured[name] = str(line["reason"])
                continue
            found.metrics[name] = float(line["value"])
            found.details[f"{name}_mad_percent"] = float(line["mad_percent"])
    return found


def _measurement(lines: list[dict[str, Any]], found: HostFigures) -> Measurement:
    with _Readable():
        (device,) = (line for line in lines if line["event"] == "device")
        (told,) = (line for line in lines if line["event"] == "circumstances")
        conditions = {
            "clocks_mhz": told["clocks_mhz"],
            "temperature_c": told["temperature_c"],
            "throttle_reasons": told["throttle_reasons"],
            "foreign_processes": told["foreign_processes"],
            "simulated": False,
            "device": device["device"],
            "details": found.details,
            "unmeasured": found.unmeasured,
        }
        return Measurement(BenchmarkMetrics.parse(found.metrics), BenchmarkConditions.parse(conditions))
    raise AssertionError("_Readable raises what it catches")
