"""What the demo's customers have run: facts, without code. Small jobs that mostly wait, so that two cores carry them."""

from __future__ import annotations

from dataclasses import dataclass

SECONDS_A_LINE = 5
ADA = "ada-compute"


@dataclass(frozen=True)
class Work:
    """One job on ``gpus`` cards of a provider's ``model``; ``lines`` of output, one every SECONDS_A_LINE."""

    name: str
    provider: str
    model: str
    image: str
    line: str
    lines: int
    last: str = "done"
    gpus: int = 1
    exit_code: int = 0

    @property
    def command(self) -> str:
        steps = f"for step in $(seq 1 {self.lines}); do echo {self.line} $step of {self.lines}; sleep {SECONDS_A_LINE}"
        return f"sh -c '{steps}; done; echo {self.last}; exit {self.exit_code}'"


TORCH = "pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"
BLENDER = "linuxserver/blender:4.3.2"
PYTHON = "python:3.12-slim"

FIRST_WORK = (
    Work("train-encoder", "fjord-gpu", "a100-sxm-80gb", TORCH, "epoch", 3, "checkpoint saved"),
    Work("embed-corpus", "rheinwerk", "a100-pcie-80gb", TORCH, "shard", 2, "embeddings written"),
    Work("render-teaser", "maple-4090", "rtx-4090-24gb", BLENDER, "frame", 2, "teaser.mp4 written"),
    Work(
        "eval-checkpoint", "tallinn-node", "rtx-a6000-48gb", PYTHON, "batch", 1, "no such file: eval.jsonl", exit_code=1
    ),
)
"""Ravi's, once. Never on Ada's L4 cards: that is where bin/tour rents, and it counts every cent."""

ROTA: dict[str, tuple[Work, ...]] = {
    "zoe": (
        Work("finetune-7b", "fjord-gpu", "h100-sxm-80gb", TORCH, "step", 96, "adapter saved", gpus=2),
        Work("sweep-learning-rate", "prairie-compute", "h100-pcie-80gb", TORCH, "trial", 60, "best: 3e-4"),
        Work("distill-reranker", "lisboa-lab", "a100-pcie-40gb", TORCH, "step", 48, "student saved"),
    ),
    "kenji": (
        Work("render-shot-12", ADA, "rtx-4090-24gb", BLENDER, "frame", 24, "shot 12 written"),
        Work("upscale-archive", "kanto-render", "l40s-48gb", PYTHON, "reel", 72, "archive written", gpus=2),
        Work("denoise-interviews", "warszawa-rig", "rtx-4090-24gb", PYTHON, "track", 36, "tracks written"),
    ),
}
"""What the others run again and again, in this order."""
