"""The figures: products per second in each precision, and bytes per second of the device's memory.

Each is the median of rounds after a warm-up, with the median absolute deviation beside it: a mean would follow the one
round in which the card was busy with something else.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent.suite.backends import Backend, SuiteFailed, failure_of, matrices_of

GIB = 1024**3
_SEED = bytes(range(32))
TENSOR_PRECISIONS = ("fp16", "bf16", "tf32")
MEMORY_METRICS = ("memory_read_gbps", "memory_write_gbps", "memory_copy_gbps")


@dataclass(frozen=True)
class Effort:
    """How much to measure. `round_s`: a round repeats its work until it takes about this long."""

    rounds: int
    round_s: float
    warm_up_s: float
    n: int
    buffer_bytes: int


QUICK = Effort(rounds=3, round_s=0.001, warm_up_s=0.001, n=128, buffer_bytes=1024 * 1024)
"""For tests and processors: shows that everything works, measures nothing."""


def effort_of(backend: Backend) -> Effort:
    """By the device's memory: matrices large enough to fill it, buffers far larger than any level-2 cache (60 MB)."""
    memory = backend.memory_bytes()
    if memory is None:
        return QUICK
    free, total = memory
    n = 16_384 if total >= 70 * GIB else 8192 if total >= 16 * GIB else 4096
    return Effort(rounds=15, round_s=0.05, warm_up_s=1.0, n=n, buffer_bytes=min(4 * GIB, free // 8))


@dataclass(frozen=True)
class Figure:
    """`value` null with a `reason` is "not measured"."""

    name: str
    value: float | None
    mad_percent: float | None = None
    rounds: int = 0
    precision: str | None = None
    reason: str | None = None


def figures(backend: Backend, effort: Effort) -> Iterator[Figure]:
    """All figures, one by one as they come. Raises SuiteFailed where nothing further can be measured."""
    rates = {
        precision: _guarded(backend, f"{precision}_tflops", partial(_product_rate, backend, effort, precision))
        for precision in ("fp32", "fp16", "bf16", "tf32")
    }
    yield rates["fp32"]
    yield rates["fp16"]
    yield _best([rates[each] for each in TENSOR_PRECISIONS])
    for name in MEMORY_METRICS:
        yield _guarded(backend, name, partial(_memory_rate, backend, effort, name))


def _best(candidates: list[Figure]) -> Figure:
    """Tensor cores in whichever precision is fastest on this card; all accumulate in FP32."""
    measured = [each for each in candidates if each.value is not None]
    if not measured:
        return Figure("tensor_tflops", None, reason=candidates[0].reason)
    best = max(measured, key=lambda each: each.value or 0.0)
    return Figure("tensor_tflops", best.value, best.mad_percent, best.rounds, best.name.partition("_")[0])


def _guarded(backend: Backend, name: str, measure: Callable[[], Figure]) -> Figure:
    """A lack of memory costs one figure; a card that is lost ends everything. What was used is given back."""
    try:
        return measure()
    except (RuntimeError, MemoryError) as error:
        reason = failure_of(error)
        if reason == "gpu_lost":
            raise SuiteFailed(reason) from None
        return Figure(name, None, reason=reason)
    finally:
        backend.release()


def _product_rate(backend: Backend, effort: Effort, precision: str) -> Figure:
    name = f"{precision}_tflops"
    if precision not in backend.precisions:
        return Figure(name, None, reason="unsupported_precision")
    a, b = matrices_of(backend, _SEED, effort.n, precision)
    seconds = _rounds(backend, effort, lambda: backend.multiply(a, b, precision))
    return _figure(name, seconds, 2 * effort.n**3 / 1e12, precision)


def _memory_rate(backend: Backend, effort: Effort, name: str) -> Figure:
    source = backend.buffer(effort.buffer_bytes, 1.0)
    target = backend.buffer(effort.buffer_bytes, 0.0) if name == "memory_copy_gbps" else None
    works: dict[str, Callable[[], Any]] = {
        "memory_read_gbps": lambda: backend.read(source),
        "memory_write_gbps": lambda: backend.write(source),
        "memory_copy_gbps": lambda: backend.copy(source, target),
    }
    # A copy reads and writes every byte.
    moved = effort.buffer_bytes * (2 if target is not None else 1)
    seconds = _rounds(backend, effort, works[name])
    return _figure(name, seconds, moved / 1e9, None)


def _rounds(backend: Backend, effort: Effort, work: Callable[[], Any]) -> list[float]:
    """Seconds per call in each round, warm-up apart."""
    warm, once = 0.0, 0.0
    while warm < effort.warm_up_s or once == 0.0:
        once = max(backend.seconds(work), 1e-9)
        warm += once
    repeats = max(1, min(10_000, round(effort.round_s / once)))

    def repeated() -> None:
        for _ in range(repeats):
            work()

    return [max(backend.seconds(repeated), 1e-9) / repeats for _ in range(effort.rounds)]


def _figure(name: str, seconds: list[float], amount: float, precision: str | None) -> Figure:
    median = statistics.median(seconds)
    deviation = statistics.median(abs(each - median) for each in seconds)
    return Figure(name, amount / median, 100 * deviation / median, len(seconds), precision)
