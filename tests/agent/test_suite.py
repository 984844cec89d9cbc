"""The suite that runs in the benchmark's image, here on the processor: what it says is true, and a GPU is never invented."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.bench.plain import chain_plain
from agent.suite import backends, metrics
from agent.suite.chain import chain_compute, leaves_compute
from agent.suite.metrics import QUICK
from agent_protocol import challenge
from agent_protocol.reasons import BENCHMARK_FAILURES
from tests.agent import nvml
from tests.agent.host import ROOT
from tests.agent.suite import suite_run
from tests.needs import SYSTEM_PYTHON, TORCH_PYTHON

SEED = "0f" * 32
NONCE = "n1"
ON_NUMPY = ("--device", "cpu", "--backend", "numpy", "--quick")
ON_TORCH = ("--device", "cpu", "--backend", "torch", "--quick")
N, ROUNDS = 24, 3
CHAIN = ("chain", "--nonce", NONCE, "--seed", SEED, "--n", str(N), "--rounds", str(ROUNDS))


def check(options: tuple[str, ...], python: str = sys.executable) -> list[str]:
    """Every opened row is that of the definition, and leads to the root that was said before; the roots."""
    answer = suite_run(*options, *CHAIN, python=python).one("chain")
    roots = [bytes.fromhex(root) for root in answer["roots"]]
    assert len(roots) == ROUNDS
    assert 0 < answer["product_s"] <= answer["total_s"]
    seeds = challenge.seeds_of(NONCE, SEED, roots)
    wanted = [(0, 0), (0, 11), (2, N - 1)]
    named = [f"{seeds[number].hex()}:{row}" for number, row in wanted]
    opened = suite_run(*options, "open", "--n", str(N), *named, python=python).all("opening")
    assert [(each["seed"], each["row"]) for each in opened] == [(seeds[number].hex(), row) for number, row in wanted]
    for each, (number, row) in zip(opened, wanted, strict=True):
        leaf, path = bytes.fromhex(each["leaf"]), [bytes.fromhex(step) for step in each["path"]]
        assert leaf == challenge.row_leaf(challenge.row_pack(challenge.product_row(seeds[number], N, row)))
        assert challenge.merkle_root_from(leaf, row, N, path) == roots[number]
    found: list[str] = answer["roots"]
    return found


def test_the_chain_is_answered_as_the_definition_says() -> None:
    check(ON_NUMPY)


def test_plain_python_brings_the_very_same_roots() -> None:
    """What a simulated card answers with."""
    chain = chain_plain(nonce=NONCE, seed=SEED, n=N, rounds=ROUNDS)
    roots, _seconds = chain_compute(backends.NumpyBackend(), nonce=NONCE, seed=SEED, n=N, rounds=ROUNDS)
    assert list(chain.roots) == roots
    seeds = challenge.seeds_of(NONCE, SEED, roots)
    assert list(chain.leaves[2]) == leaves_compute(backends.NumpyBackend(), seeds[2], N)


@pytest.mark.torch
def test_torch_brings_the_very_same_roots() -> None:
    assert check(ON_TORCH, TORCH_PYTHON) == check(ON_NUMPY)


def test_figures_are_said_one_by_one_with_their_spread() -> None:
    said = suite_run(*ON_NUMPY, "figures")
    figures = {each["name"]: each for each in said.all("figure")}
    assert set(figures) == {"fp32_tflops", "fp16_tflops", "tensor_tflops", *metrics.MEMORY_METRICS}
    assert figures["fp32_tflops"]["value"] > 0
    assert figures["fp32_tflops"]["mad_percent"] >= 0
    assert (figures["fp16_tflops"]["value"], figures["fp16_tflops"]["reason"]) == (None, "unsupported_precision")
    assert said.one("device")["device"] == "cpu"
    assert [each["percent"] for each in said.all("progress")] == [16, 33, 50, 66, 83, 100]
    assert said.one("circumstances")["clocks_mhz"] is None


@pytest.mark.torch
def test_every_precision_that_torch_multiplies_in_brings_the_same_integers() -> None:
    """On a processor as on a card: FP32, BF16 and FP16 hold the sums exactly. n is small, as FP16 is emulated here."""
    code = (
        "import torch; from agent.suite.backends import TorchBackend, matrices_of\n"
        "b = TorchBackend('cpu'); seed = bytes(range(32)); n = 96; found = set()\n"
        "for p in ('fp32', 'bf16', 'fp16'):\n"
        "    try: m = [x for x in matrices_of(b, seed, n, p)]; c = b.multiply(*m, p)\n"
        "    except RuntimeError as error:\n"  # this torch cannot multiply FP16 on a processor
        "        assert p == 'fp16' and 'not implemented' in str(error); continue\n"
        "    assert b.seconds(lambda: None) >= 0; found.add(b.rows(c).tobytes())\n"
        "print(len(found), torch.backends.cuda.matmul.allow_tf32)\n"
        "b.multiply(*matrices_of(b, seed, n, 'tf32'), 'tf32'); print(torch.backends.cuda.matmul.allow_tf32)\n"
    )
    done = subprocess.run(
        [TORCH_PYTHON, "-c", code], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["1", "False", "True"], done.stderr


@pytest.mark.torch
def test_without_cuda_torch_says_so() -> None:
    said = suite_run("figures", python=TORCH_PYTHON)
    assert (said.code, said.lines) == (1, [{"event": "failed", "reason": "no_cuda"}])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--backend", "numpy", "figures"), "no_cuda"),
        ((*ON_NUMPY, *CHAIN, "--n", "16385"), "unsupported_suite"),
        ((*ON_NUMPY, *CHAIN, "--n", "0"), "unsupported_suite"),
        ((*ON_NUMPY, *CHAIN, "--rounds", "9999"), "unsupported_suite"),
        ((*ON_NUMPY, *CHAIN, "--seed", "not hexadecimal"), "unsupported_suite"),
        ((*ON_NUMPY, "--suite-version", "99", "figures"), "unsupported_suite"),
        ((*ON_NUMPY, "open", "--n", "24", "0f:1"), "unsupported_suite"),
        ((*ON_NUMPY, "open", "--n", "24", f"{SEED}:24"), "unsupported_suite"),
    ],
)
def test_what_cannot_be_done_has_a_reason_and_no_figures_of_a_gpu(arguments: tuple[str, ...], reason: str) -> None:
    said = suite_run(*arguments)
    assert said.code == 1
    assert said.lines[-1] == {"event": "failed", "reason": reason}
    assert reason in BENCHMARK_FAILURES
    assert not any(each["device"] == "cuda" for each in said.all("device"))


# -- Measuring --------------------------------------------------------------------------------------------------------


class Pretended(backends.NumpyBackend):
    """A card whose clock, memory and health a test decides."""

    precisions = ("fp16", "fp32", "bf16", "tf32")

    def __init__(self, seconds: list[float] | None = None, failing: dict[str, Exception] | None = None) -> None:
        self.script = iter(seconds or [])
        self.failing = failing or {}
        self.rates = {"fp32": 1.0, "fp16": 4.0, "bf16": 8.0, "tf32": 2.0}
        self.precision = "fp32"

    def multiply(self, a: Any, b: Any, precision: str) -> Any:
        self.precision = precision
        if precision in self.failing:
            raise self.failing[precision]
        return a

    def seconds(self, work: Callable[[], Any]) -> float:
        work()
        return next(self.script, 1.0 / self.rates[self.precision])


def measured(backend: backends.Backend) -> dict[str, metrics.Figure]:
    return {figure.name: figure for figure in metrics.figures(backend, QUICK)}


def test_the_median_ignores_one_slow_round_and_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Pretended([9.0, 1.0, 5.0, 1.5])  # warm-up, then three rounds
    figure = next(metrics.figures(backend, QUICK))
    assert figure.value == pytest.approx(2 * QUICK.n**3 / 1e12 / 1.5)
    assert figure.mad_percent == pytest.approx(100 * 0.5 / 1.5)
    assert figure.rounds == 3


def test_the_tensor_figure_is_the_best_precision_and_says_which() -> None:
    found = measured(Pretended())
    assert found["tensor_tflops"].precision == "bf16"
    assert found["tensor_tflops"].value == 2 * (found["fp16_tflops"].value or 0)


def test_a_lack_of_memory_costs_one_figure_and_says_so() -> None:
    found = measured(Pretended(failing={"fp32": RuntimeError("CUDA out of memory. Tried to allocate 1.00 GiB")}))
    assert (found["fp32_tflops"].value, found["fp32_tflops"].reason) == (None, "out_of_memory")
    assert found["fp16_tflops"].value is not None


def test_a_card_that_is_lost_ends_everything() -> None:
    backend = Pretended(failing={"fp16": RuntimeError("CUDA error: the GPU has fallen off the bus")})
    with pytest.raises(backends.SuiteFailed, match="gpu_lost"):
        measured(backend)


def test_effort_follows_the_memory_and_buffers_outgrow_every_cache() -> None:
    class Sized(backends.NumpyBackend):
        def __init__(self, gib: int) -> None:
            self.gib = gib

        def memory_bytes(self) -> tuple[int, int] | None:
            return self.gib * metrics.GIB, self.gib * metrics.GIB

    efforts = [metrics.effort_of(Sized(gib)) for gib in (8, 24, 80)]
    assert [each.n for each in efforts] == [4096, 8192, 16_384]
    assert all(each.buffer_bytes >= 16 * 60_000_000 for each in efforts)
    # Three FP32 matrices and the blocks they are made from fit beside each other.
    for effort, gib in zip(efforts, (8, 24, 80), strict=True):
        assert 3 * 4 * effort.n**2 + 6 * 8 * backends.BLOCK * effort.n < gib * metrics.GIB / 2


def test_a_chain_in_a_precision_that_rounds_is_refused() -> None:
    class Coarse(backends.NumpyBackend):
        precisions = ("bf16",)

    with pytest.raises(backends.SuiteFailed, match="unsupported_suite"):
        chain_compute(Coarse(), nonce=NONCE, seed=SEED, n=8192, rounds=1)


def test_matrices_are_made_in_blocks_as_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = backends.matrices_of(backends.NumpyBackend(), bytes(range(32)), 50, "fp32")
    monkeypatch.setattr(backends, "BLOCK", 7)
    parts = backends.matrices_of(backends.NumpyBackend(), bytes(range(32)), 50, "fp32")
    assert all(np.array_equal(a, b) for a, b in zip(whole, parts, strict=True))


@pytest.mark.compiler
def test_circumstances_are_what_nvml_says_and_nothing_where_it_is_silent(tmp_path: Path) -> None:
    state = tmp_path / "state"
    nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100 + "sm_clock 1410\n")
    code = (
        "import json, sys; from agent.suite.nvml import Circumstances\n"
        "for uuid in sys.argv[1:]:\n"
        "    found = Circumstances(uuid)\n"
        "    with found.watched(): pass\n"
        "    print(json.dumps(found.told()))\n"
    )
    done = subprocess.run(
        [SYSTEM_PYTHON, "-c", code, nvml.A100_UUID, nvml.L4_UUID, "GPU-gone"],
        env={"PYTHONPATH": str(ROOT), **nvml.environment(state)},
        capture_output=True,
        text=True,
        check=True,
    )
    a100, l4, gone = done.stdout.splitlines()
    assert '"clocks_mhz": 1410' in a100
    assert '"temperature_c": 30' in a100
    assert '"throttle_reasons": ["sw_power_cap", "hw_thermal"]' in a100
    assert '"foreign_processes": 1' in a100
    assert '"clocks_mhz": 2040' in l4
    assert '"throttle_reasons": []' in l4
    assert gone == '{"clocks_mhz": null, "temperature_c": null, "throttle_reasons": [], "foreign_processes": null}'
