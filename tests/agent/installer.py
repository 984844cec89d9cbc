"""A machine for the installer: a PATH of its own with stand-ins for NVIDIA's programs, a folder for /etc/gpunex."""

import fcntl
import os
import shutil
import subprocess
import termios
from functools import partial
from pathlib import Path

from tests.agent.agent_image import ROOT
from tests.agent.network import NFT, Namespace
from tests.agent.waiting import eventually

SCRIPT = ROOT / "agent" / "install.sh"
# What the script may use besides its stand-ins.
TOOLS = (
    *("sh", "bash", "dash", "env", "id", "uname", "date", "sleep", "dirname"),
    *("awk", "grep", "sed", "tr", "cut", "cksum", "head", "tail", "wc", "cat", "tee"),
    *("df", "mkdir", "mv", "rm"),
)
CARD_A = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
CARD_B = "GPU-bbbbbbbb-0000-0000-0000-000000000002"
DIGEST = "@sha256:" + "0" * 64
NVIDIA_SMI = f"""case "$*" in
*driver_version*) echo 550.54.15 ;;
*uuid*) echo "{CARD_A}, NVIDIA L4"; echo "{CARD_B}, NVIDIA L4" ;;
esac"""
# Answers as Docker Engine 27 does; pulls and runs nothing, and writes down what it was asked for.
DOCKER = """echo "$*" >>"$(dirname "$0")/docker.asked"
case "$*" in
--version) echo "Docker version 27.1.1" ;;
*'json .Server'*) echo '{"Platform":{"Name":"Docker Engine - Community"}}' ;;
*Server.Version*) echo 27.1.1 ;;
*OperatingSystem*) echo 'Debian GNU/Linux 12 (bookworm) [name=seccomp,profile=builtin]' ;;
*DockerRootDir*) echo / ;;
'volume inspect'* | inspect*) exit 1 ;;
esac"""


class Machine:
    """Shell scripts stand before the real programs. With a network namespace of its own the packet filter is real too."""

    def __init__(
        self,
        folder: Path,
        url: str = "https://gpunex.example",
        namespace: Namespace | None = None,
        **environment: str,
    ) -> None:
        self._namespace = namespace
        self.bin = folder / "bin"
        self.etc = folder / "etc"
        self.bin.mkdir()
        for name in TOOLS:
            found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
            if found is not None:
                (self.bin / name).symlink_to(found)
        self.tool("nvidia-smi", NVIDIA_SMI)
        self.tool("nvidia-ctk", 'echo "NVIDIA Container Toolkit CLI version 1.18.2"; echo "commit: abc"')
        self.tool("nft", None if namespace else 'case "$*" in *list*) exit 1 ;; *) cat >/dev/null ;; esac')
        if namespace:
            (self.bin / "nft").symlink_to(NFT)
        self.tool("docker", DOCKER)
        self.environment = {
            "PATH": str(self.bin),
            "GPUNEX_FOLDER": str(self.etc),
            "GPUNEX_URL": url,
            "GPUNEX_AGENT_IMAGE": f"agent{DIGEST}",
            "GPUNEX_GUARD_IMAGE": f"guard{DIGEST}",
            **environment,
        }

    def tool(self, name: str, script: str | None) -> None:
        """Put a stand-in into the PATH; null takes the program out of it."""
        (self.bin / name).unlink(missing_ok=True)
        if script is not None:
            (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
            (self.bin / name).chmod(0o755)

    def asked(self) -> str:
        """What the stand-in for docker was asked for."""
        file = self.bin / "docker.asked"
        return file.read_text() if file.exists() else ""

    def install(
        self, *arguments: str, shell: str = "bash", script: str | None = None, **environment: str
    ) -> "subprocess.CompletedProcess[str]":
        """As `curl … | bash` does it, without a terminal."""
        run = subprocess.run if self._namespace is None else partial(self._namespace.call, subprocess.run)
        return run(
            [shell, "-s", "--", *arguments],
            input=SCRIPT.read_text() if script is None else script,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            start_new_session=True,
            env=self.environment | environment,
        )

    def install_on_a_terminal(
        self, *arguments: str, answers: list[tuple[str, str]], **environment: str
    ) -> tuple[int, str, str]:
        """The same with a terminal that answers: (what it waits for, what is typed). Exit code, terminal, output."""
        ours, theirs = os.openpty()

        def own_terminal() -> None:
            os.setsid()
            fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

        popen = subprocess.Popen if self._namespace is None else partial(self._namespace.call, subprocess.Popen)
        with (
            open(SCRIPT) as script,
            popen(
                ["bash", "-s", "--", *arguments],
                stdin=script,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=own_terminal,
                env=self.environment | environment,
            ) as process,
        ):
            seen = ""
            os.set_blocking(ours, False)
            for question, answer in answers:

                def asked(question: str = question) -> bool:
                    nonlocal seen
                    seen += _read(ours)
                    return question in seen

                eventually(asked, f"it asks: {question}", timeout_s=120)
                os.write(ours, f"{answer}\n".encode())
            output, _ = process.communicate(timeout=300)
            seen += _read(ours)
        os.close(ours)
        os.close(theirs)
        return process.returncode, seen, output


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode()
    except BlockingIOError:
        return ""
