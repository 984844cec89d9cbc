"""What this host offers, decided by whoever started the guard, never by who speaks to it."""

import os
import re
from dataclasses import dataclass, field

from agent.guard.errors import Refused, shown
from agent_protocol.images import ALLOWED_REGISTRIES, ImageReference, ImageRefused, image_parse

GPU = re.compile(r"GPU-[0-9A-Za-z-]{1,90}")

# The benchmark suite asks for this much on every machine; a smaller one bounds it by what it has.
SUITE_MEMORY_BYTES = 16 * 2**30


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """`gpus` null: every GPU, but each by its UUID. `networks`: whether jobs may have a bridge (only behind egress rules).

    `images` are single ones, by digest, that may come from any registry: the agent's own looks whether those rules hold.
    """

    gpus: frozenset[str] | None = None
    registries: frozenset[str] = ALLOWED_REGISTRIES
    images: frozenset[ImageReference] = frozenset()
    networks: bool = False
    memory_bytes: int = field(default_factory=lambda: max(_machine_memory(), SUITE_MEMORY_BYTES))
    cpus: int = field(default_factory=lambda: os.cpu_count() or 1)

    def image(self, text: str, where: str) -> ImageReference:
        """The reference in an image's name. Raises Refused."""
        try:
            reference = image_parse(text, allowed_registries=self.registries | {each.registry for each in self.images})
            if reference.registry in self.registries or reference.pull_reference in self._single():
                return reference
            return image_parse(text, allowed_registries=self.registries)
        except ImageRefused as refused:
            raise Refused(where, shown(text), refused.allowed) from None

    def _single(self) -> set[str]:
        return {each.pull_reference for each in self.images}

    def gpu_check(self, uuid: object, where: str) -> str:
        if not isinstance(uuid, str) or not GPU.fullmatch(uuid):
            raise Refused(where, shown(uuid), "the UUID of a GPU")
        if self.gpus is not None and uuid not in self.gpus:
            raise Refused(where, shown(uuid), "the GPUs that this machine offers")
        return uuid
