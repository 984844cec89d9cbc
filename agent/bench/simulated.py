"""Figures of a card that does not exist: those its model is known to measure, with a small seeded noise."""

import random
from collections.abc import Callable, Sequence
from dataclasses import fields

from agent.bench.base import BenchmarkRefused, Cancelled, ChallengeDesk, Measurement
from agent.bench.challenge import Chain, Row, challenge_answer
from agent.bench.plain import PlainChain, chain_plain
from agent.probe.simulated import SimulatedProfile
from agent_protocol.messages import BenchmarkConditions, BenchmarkMetrics, BenchmarkPlan

SUITE_VERSIONS = frozenset({1})
# Plain Python needs n³ steps a round; a platform that asks a simulation for a real card's product is mistaken.
LARGEST_N = 128
# Equal healthy cards differ by one or two percent.
NOISE = 0.01
_STEPS = 20

_HOST = {
    "storage_read_mbps": 3200.0,
    "storage_write_mbps": 1900.0,
    "network_down_mbps": 940.0,
    "network_up_mbps": 610.0,
    "latency_ms": 24.0,
}


def _card(fp32: float, fp16: float, tensor: float, bandwidth: float) -> dict[str, float]:
    """Figures of a healthy card: TFLOPS, and GB/s of which a read reaches 92 %, a write 90 %, a copy 85 %."""
    return {
        "fp32_tflops": fp32,
        "fp16_tflops": fp16,
        "tensor_tflops": tensor,
        "memory_read_gbps": bandwidth * 0.92,
        "memory_write_gbps": bandwidth * 0.90,
        "memory_copy_gbps": bandwidth * 0.85,
        **_HOST,
    }


# What healthy cards measure, far below the vendors' peaks. The first whose words all stand in the card's name wins.
_MODELS: tuple[tuple[tuple[str, ...], dict[str, float]], ...] = (
    (("H100", "PCIE"), _card(37, 330, 340, 2039)),
    (("H100",), _card(49, 570, 590, 3350)),
    (("A100", "PCIE"), _card(17, 197, 205, 1555)),
    (("A100", "80GB"), _card(18, 239, 245, 2039)),
    (("A100",), _card(18, 230, 236, 1555)),
    (("L40S",), _card(35, 171, 178, 864)),
    (("4090",), _card(48, 163, 168, 1008)),
    (("A6000",), _card(21, 72, 75, 768)),
    (("L4",), _card(9, 51, 53, 300)),
)


class SimulatedBenchmark:
    """Takes `benchmark_s` of the profile; the same challenge brings the same figures. The challenge itself is answered
    honestly, in plain Python."""

    def __init__(self, profile: SimulatedProfile, desk: ChallengeDesk) -> None:
        self._profile = profile
        self._desk = desk

    def names(self) -> frozenset[str]:
        return frozenset()

    def run(self, plan: BenchmarkPlan, progress: Callable[[int], None], cancelled: Cancelled) -> Measurement:
        if plan.suite_version not in SUITE_VERSIONS or plan.challenge.n > LARGEST_N:
            raise BenchmarkRefused("unsupported_suite")
        cards = [each for each in self._profile.gpus if each.gpu.uuid == plan.gpu_uuid]
        if not cards:
            raise BenchmarkRefused("gpu_missing")
        if cards[0].gpu.health == "lost":
            raise BenchmarkRefused("gpu_lost")
        for step in range(_STEPS):
            if cancelled(self._profile.benchmark_s / _STEPS):
                raise BenchmarkRefused("interrupted")
            progress(100 * (step + 1) // _STEPS)
        challenge_answer(self._desk, plan, _PlainProver(plan), cancelled)
        noise = random.Random(f"{plan.challenge.nonce} {plan.gpu_uuid}")
        figures = cards[0].peak or _by_name(cards[0].gpu.name or "")
        metrics = {each.name: _noisy(getattr(figures, each.name), noise) for each in fields(figures)}
        return Measurement(
            BenchmarkMetrics(**metrics),
            BenchmarkConditions(
                clocks_mhz=None,
                temperature_c=round(66 + 4 * noise.random(), 1),
                throttle_reasons=("sw_power_cap",),
                foreign_processes=0,
                simulated=True,
                device="simulated",
            ),
        )


class _PlainProver:
    def __init__(self, plan: BenchmarkPlan) -> None:
        self._challenge = plan.challenge
        self._computed: PlainChain | None = None

    def chain(self, seed: str) -> Chain:
        asked = self._challenge
        self._computed = chain_plain(nonce=asked.nonce, seed=seed, n=asked.n, rounds=asked.rounds)
        return Chain(self._computed.roots, None)

    def open(self, seed: str, chain: Chain, rows: Sequence[Row]) -> list[tuple[bytes, list[bytes]]]:
        assert self._computed is not None, "opened after the chain"
        return [self._computed.opening(number, row) for number, row in rows]


def _by_name(name: str) -> BenchmarkMetrics:
    """Figures of the model that the name names; of none, nothing was measured and all is null."""
    for words, figures in _MODELS:
        if all(word in name.upper().replace("-", " ").replace("80 GB", "80GB") for word in words):
            return BenchmarkMetrics(**figures)
    return BenchmarkMetrics()


def _noisy(value: float | None, noise: random.Random) -> float | None:
    return None if value is None else round(value * (1 + NOISE * noise.uniform(-1, 1)), 3)
