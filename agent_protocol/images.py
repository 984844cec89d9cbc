"""Which container images may be named. The engine pulls from the host's network, so a name is an address to check."""

import re
from dataclasses import dataclass

DEFAULT_REGISTRY = "docker.io"
# Public registries with accounts and abuse desks; an operator may add more.
ALLOWED_REGISTRIES: frozenset[str] = frozenset({"docker.io", "ghcr.io", "quay.io", "nvcr.io"})

MAX_LENGTH = 512
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_COMPONENT}(?:/{_COMPONENT})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HOST_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+")


class ImageRefused(ValueError):
    """`code`: malformed | registry_address | registry_not_allowed; `allowed` says what may be written instead."""

    def __init__(self, code: str, allowed: str) -> None:
        self.code = code
        self.allowed = allowed
        super().__init__(f"{code}: allowed: {allowed}")


@dataclass(frozen=True)
class ImageReference:
    """A checked name: `registry/repository`, with a tag, a digest, or both."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    @property
    def name(self) -> str:
        """`registry/repository`, which is what an engine pulls."""
        return f"{self.registry}/{self.repository}"

    @property
    def pull_reference(self) -> str:
        """The digest wins over the tag, which may have moved since."""
        return f"{self.name}@{self.digest}" if self.digest else f"{self.name}:{self.tag}"


def image_parse(image: str, *, allowed_registries: frozenset[str] = ALLOWED_REGISTRIES) -> ImageReference:
    """The reference in an image name as `docker run` reads it. Raises ImageRefused.

    IP literals, ports and single-label hosts (localhost, names of the provider's own network) are never registries,
    unless an operator lists exactly that name.
    """
    if not 1 <= len(image) <= MAX_LENGTH:
        raise ImageRefused("malformed", f"1 to {MAX_LENGTH} characters")
    rest, _, digest = image.partition("@")
    if "@" in image and not _DIGEST.fullmatch(digest):
        raise ImageRefused("malformed", "a digest like sha256:<64 hexadecimal digits>")
    first, slash, remainder = rest.partition("/")
    # Docker's own rule: the first part is a host if it looks like one.
    if slash and ("." in first or ":" in first or first == "localhost" or first != first.lower()):
        registry, path = first, remainder
    else:
        registry, path = DEFAULT_REGISTRY, rest
    if registry == "index.docker.io":
        registry = DEFAULT_REGISTRY
    _registry_check(registry, allowed_registries)
    repository, colon, tag = path.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise ImageRefused("malformed", "a tag of letters, digits, '.', '_' and '-'")
    if not _REPOSITORY.fullmatch(repository):
        raise ImageRefused("malformed", "a name like owner/image, in lower case")
    if registry == DEFAULT_REGISTRY and "/" not in repository:
        repository = f"library/{repository}"
    return ImageReference(registry, repository, tag or (None if digest else "latest"), digest or None)


def _registry_check(registry: str, allowed: frozenset[str]) -> None:
    if registry in allowed:
        return
    label = registry.rpartition(".")[2]
    if not _HOST_NAME.fullmatch(registry) or label.isdigit() or label.startswith("0x"):
        raise ImageRefused("registry_address", "the name of a public registry, without a port")
    raise ImageRefused("registry_not_allowed", ", ".join(sorted(allowed)))
