"""Arrays on a device: torch on CUDA or on the processor, NumPy where there is no torch (never said to be a GPU)."""

import importlib
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from agent_protocol.challenge import entry, keys_of, line

BLOCK = 1024
"""Lines of a matrix that are made at a time: at n = 16,384 their 64-bit numbers take 128 MiB."""


class SuiteFailed(Exception):
    """No figures. `reason` is one of agent_protocol.reasons.BENCHMARK_FAILURES."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Backend(Protocol):
    """What the measurements need of a device. `precisions`: those it can multiply in; the first is the chain's."""

    device: str
    name: str
    precisions: tuple[str, ...]

    def memory_bytes(self) -> tuple[int, int] | None:
        """(free, total) of the device's memory; None where it is the machine's own."""

    def matrix(self, row_key: int, column_key: int, n: int, precision: str) -> Any:
        """The challenge's n by n matrix under two keys."""

    def multiply(self, a: Any, b: Any, precision: str) -> Any:
        """The product, finished when this returns."""

    def rows(self, product: Any) -> Any:
        """The product as a NumPy array of little-endian int16 in the machine's memory."""

    def buffer(self, size_bytes: int, value: float) -> Any:
        """A flat FP32 array of this size."""

    def read(self, buffer: Any) -> None:
        """Read all of a buffer once."""

    def write(self, buffer: Any) -> None:
        """Write all of a buffer once."""

    def copy(self, source: Any, target: Any) -> None:
        """Copy one buffer into another of the same size."""

    def seconds(self, work: Callable[[], Any]) -> float:
        """How long the device takes for `work`, from the first to the last of it."""

    def release(self) -> None:
        """Give back memory that is no longer used."""


def _lines(backend_range: Any, row_key: int, column_key: int) -> tuple[Any, Any]:
    return line(row_key, backend_range)[:, None], line(column_key, backend_range)[None, :]


class NumpyBackend:
    """The processor, without torch."""

    device = "cpu"
    name = "numpy"
    precisions: tuple[str, ...] = ("fp32",)

    def memory_bytes(self) -> tuple[int, int] | None:
        return None

    def matrix(self, row_key: int, column_key: int, n: int, precision: str) -> Any:
        rows, columns = _lines(np.arange(n, dtype=np.int64), row_key, column_key)
        found = np.empty((n, n), dtype=np.float32)
        for first in range(0, n, BLOCK):
            found[first : first + BLOCK] = entry(rows[first : first + BLOCK], columns)
        return found

    def multiply(self, a: Any, b: Any, precision: str) -> Any:
        return a @ b

    def rows(self, product: Any) -> Any:
        return product.astype("<i2")

    def buffer(self, size_bytes: int, value: float) -> Any:
        return np.full(size_bytes // 4, value, dtype=np.float32)

    def read(self, buffer: Any) -> None:
        buffer.sum()

    def write(self, buffer: Any) -> None:
        buffer.fill(2.0)

    def copy(self, source: Any, target: Any) -> None:
        np.copyto(target, source)

    def seconds(self, work: Callable[[], Any]) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    def release(self) -> None:
        """Nothing is held."""


class TorchBackend:
    """A CUDA device, or the processor. torch 1.13 to 2.x; imported here only, as it takes seconds and gigabytes."""

    def __init__(self, device: str) -> None:
        """Raises SuiteFailed: `not_installed` without torch, `no_cuda` where CUDA is asked for and does not work."""
        try:
            self._torch: Any = importlib.import_module("torch")
        except ImportError:
            raise SuiteFailed("not_installed") from None
        torch = self._torch
        if device == "cuda" and not torch.cuda.is_available():
            raise SuiteFailed("no_cuda")
        self.device = device
        self.name = torch.cuda.get_device_name(0) if device == "cuda" else f"torch {torch.__version__}"
        # On a processor half precision is emulated and says nothing.
        self.precisions: tuple[str, ...] = ("fp16", "fp32", "bf16", "tf32") if device == "cuda" else ("fp32",)
        if device == "cuda" and not torch.cuda.is_bf16_supported():
            self.precisions = ("fp16", "fp32")
        self._types = {
            "fp32": torch.float32,
            "tf32": torch.float32,
            "fp16": torch.float16,
            "bf16": torch.bfloat16,
        }
        torch.set_grad_enabled(False)

    def memory_bytes(self) -> tuple[int, int] | None:
        if self.device != "cuda":
            return None
        free, total = self._torch.cuda.mem_get_info()
        return int(free), int(total)

    def matrix(self, row_key: int, column_key: int, n: int, precision: str) -> Any:
        torch = self._torch
        rows, columns = _lines(torch.arange(n, dtype=torch.int64, device=self.device), row_key, column_key)
        found = torch.empty((n, n), dtype=self._types[precision], device=self.device)
        for first in range(0, n, BLOCK):
            found[first : first + BLOCK] = entry(rows[first : first + BLOCK], columns)
        return found

    def multiply(self, a: Any, b: Any, precision: str) -> Any:
        # FP32 means FP32: TF32 keeps 10 bits of the mantissa and would pass for three times the speed.
        self._torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        return a @ b

    def rows(self, product: Any) -> Any:
        return product.to(self._torch.int16).cpu().numpy().astype("<i2", copy=False)

    def buffer(self, size_bytes: int, value: float) -> Any:
        return self._torch.full((size_bytes // 4,), value, dtype=self._torch.float32, device=self.device)

    def read(self, buffer: Any) -> None:
        buffer.sum()

    def write(self, buffer: Any) -> None:
        buffer.fill_(2.0)

    def copy(self, source: Any, target: Any) -> None:
        target.copy_(source)

    def seconds(self, work: Callable[[], Any]) -> float:
        if self.device != "cuda":
            started = time.perf_counter()
            work()
            return time.perf_counter() - started
        cuda = self._torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000

    def release(self) -> None:
        if self.device == "cuda":
            self._torch.cuda.empty_cache()


def backend_make(name: str, device: str) -> Backend:
    """`torch` or `numpy` on `cuda` or `cpu`. Raises SuiteFailed."""
    if name == "torch":
        return TorchBackend(device)
    if device != "cpu":
        raise SuiteFailed("no_cuda")
    return NumpyBackend()


def failure_of(error: Exception) -> str:
    """The reason code of what a library raised; torch says many things with RuntimeError, in words only."""
    if isinstance(error, SuiteFailed):
        return error.reason
    said = f"{type(error).__name__} {error}".lower()
    if "out of memory" in said or "outofmemory" in said or isinstance(error, MemoryError):
        return "out_of_memory"
    if "fallen off the bus" in said or "device lost" in said or "gpu is lost" in said:
        return "gpu_lost"
    return "unknown"


def matrices_of(backend: Backend, seed: bytes, n: int, precision: str) -> tuple[Any, Any]:
    """A and B of a round."""
    keys = keys_of(seed)
    return (
        backend.matrix(keys.a_row, keys.a_column, n, precision),
        backend.matrix(keys.b_row, keys.b_column, n, precision),
    )
