"""A private Docker Engine for tests: own socket, own data, no network of its own, gone afterwards."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import docker

from tests.agent.guard import GuardProcess
from tests.agent.waiting import eventually

# With this program in its PATH the engine serves `--gpus`. Ours hands out nothing; it refuses a card that "is broken".
HOOK = """#!/bin/sh
bundle=$(sed -n 's/.*"bundle":"\\([^"]*\\)".*/\\1/p')
if grep -q GPU-broken "$bundle/config.json"; then
    echo "nvidia-container-cli: device error: GPU-broken: unknown device" >&2
    exit 1
fi
"""


class DockerEngine:
    """`live_restore`: containers outlive the engine. `gpus`: it can hand out GPUs. `mirror`: what answers for docker.io;
    `resolvers`: what it reads as the machine's resolv.conf.

    The agent's way to it leads through a guard of its own, with `registries` and `guard_options`.
    """

    def __init__(
        self,
        *,
        live_restore: bool = True,
        gpus: bool = True,
        mirror: str | None = None,
        registries: tuple[str, ...] = (),
        guard_options: tuple[str, ...] = (),
        resolvers: str | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpx-dk-"))
        self.live_restore, self.mirror, self.resolvers = live_restore, mirror, resolvers
        self.process: subprocess.Popen[bytes] | None = None
        self.guard = GuardProcess(self.folder, self.folder / "docker.sock", registries, *guard_options)
        tools = self.folder / "bin"
        tools.mkdir()
        if gpus:
            (tools / "nvidia-container-runtime-hook").write_text(HOOK)
            (tools / "nvidia-container-runtime-hook").chmod(0o755)

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    @property
    def guard_address(self) -> str:
        """The guard starts when it is first asked for, and goes on when the engine stops."""
        if self.guard.process is None:
            self.guard.start()
        return self.guard.address

    def start(self) -> "DockerEngine":
        pidfile = self.folder / "docker.pid"
        pidfile.unlink(missing_ok=True)
        command = ["dockerd", "--host", self.address, "--data-root", str(self.folder / "data")]
        command += ["--exec-root", str(self.folder / "exec"), "--pidfile", str(pidfile), "--cgroup-parent=/gpx-test"]
        command += ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=overlay2"]
        command += ["--shutdown-timeout", "3", *(["--live-restore"] if self.live_restore else [])]
        command += ["--registry-mirror", self.mirror] if self.mirror else []
        if self.resolvers is not None:
            (self.folder / "resolv.conf").write_text(self.resolvers)
            covered = f"mount --bind {self.folder}/resolv.conf /etc/resolv.conf"
            command = ["unshare", "--mount", "sh", "-c", f'{covered} && exec "$@"', "sh", *command]
        with open(self.folder / "dockerd.log", "ab") as journal:
            self.process = subprocess.Popen(
                command,
                env={"PATH": f"{self.folder}/bin:/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin"},
                stdout=journal,
                stderr=journal,
                start_new_session=True,
            )
        eventually(self._answers, "the engine answers (see dockerd.log)", timeout_s=60)
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "dockerd.log").read_text()[-3000:]
        try:
            client = docker.DockerClient(base_url=self.address, timeout=5)
        except docker.errors.DockerException:
            return False
        client.close()
        return True

    def client(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=self.address, timeout=30, version="auto")

    def empty(self) -> None:
        """Remove every container, beside an agent that may be doing the same."""
        client = self.client()

        def is_empty() -> bool:
            for container in client.api.containers(all=True):
                with contextlib.suppress(docker.errors.APIError):
                    client.api.remove_container(container["Id"], force=True, v=True)
            return not client.api.containers(all=True)

        eventually(is_empty, "the engine is empty")
        client.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(60)
        # The engine's private containerd ends with it; a leftover of its number would be believed to be alive.
        (self.folder / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.empty()
            self._networks_remove()
            self.stop()
        self.guard.stop()
        self._shims_end()
        self._unmount()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _networks_remove(self) -> None:
        """The bridges of a test that failed half-way would outlive the engine."""
        client = self.client()
        client.networks.prune()
        client.close()

    def _shims_end(self) -> None:
        """Containers that a killed engine left running, each under a shim that names our folder."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if str(self.folder).encode() in (entry / "cmdline").read_bytes() and entry.name != str(os.getpid()):
                    children = (entry / "task" / entry.name / "children").read_text().split()
                    for number in [*children, entry.name]:
                        os.kill(int(number), signal.SIGKILL)

    def _unmount(self) -> None:
        """What is mounted below our folder, deepest first."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((each for each in mounts if each.startswith(str(self.folder))), reverse=True):
            subprocess.run(["umount", "-l", mount], check=False)


def container_of(engine: DockerEngine, body: dict[str, object]) -> dict[str, object] | None:
    """The engine's description of an attempt's container."""
    client = engine.client()
    try:
        found: dict[str, object] = client.api.inspect_container(f"gpunex-job-{body['job_id']}-{body['number']}")
    except docker.errors.NotFound:
        return None
    finally:
        client.close()
    return found
