"""Root file system of an image that runs this checkout's agent with this interpreter: the real agent, in a container."""

import ensurepip
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.path.realpath(sys.executable)
AGENT_USER = 64000
_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "pydoc_data"}
_LEFT_OUT |= {"site-packages", "dist-packages"}
APPLETS = ("sh", "cat", "rm", "sleep", "ls", "id", "env", "grep", "chmod")

# What NVIDIA's toolkit would put into a container that is given GPUs; it prints those it was given.
NVIDIA_SMI = """#!/bin/sh
case ${NVIDIA_VISIBLE_DEVICES:-void} in void | none) echo "No devices were found"; exit 6 ;; esac
echo "GPU 0: NVIDIA L4 (UUID: $NVIDIA_VISIBLE_DEVICES)"
"""


@cache
def layer() -> bytes:
    """A tar archive: interpreter, standard library, what agent/requirements.txt names, the agent, a shell."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _folder(archive, "var/lib/gpunex-agent", 0o700, AGENT_USER)
        _folder(archive, "run/gpunex", 0o755)
        _text(archive, "usr/bin/nvidia-smi", NVIDIA_SMI, 0o755)
        _text(archive, "etc/passwd", f"gpunex-agent:x:{AGENT_USER}:{AGENT_USER}::/var/lib/gpunex-agent:/bin/sh\n")
        _system(archive)
        for name in ("agent", "agent_protocol"):
            archive.add(ROOT / name, f"opt/gpunex/{name}")
        for source, name in _packages():
            archive.add(source, f"opt/packages/{name}")
    return buffer.getvalue()


def base_layer(wheels: Path) -> bytes:
    """What agent/Dockerfile builds on, from this machine's files: `python3` with pip, a shell, what adds users. pip finds
    what is in the folder `wheels`. `fio` stands where its stage would build it, and measures nothing."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        _system(archive, "/usr/sbin/groupadd", "/usr/sbin/useradd", "/usr/bin/install")
        _text(archive, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        _text(archive, "etc/group", "root:x:0:\n")
        _text(archive, "etc/login.defs", "UID_MAX 65000\nGID_MAX 65000\n")
        _text(archive, "etc/nsswitch.conf", "passwd: files\ngroup: files\n")
        _text(archive, "usr/local/bin/fio", "#!/bin/sh\nexit 1\n", 0o755)
        python = tarfile.TarInfo("usr/bin/python3")
        python.type, python.linkname = tarfile.SYMTYPE, PYTHON
        archive.addfile(python)
        (pip,) = (Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl")
        with zipfile.ZipFile(pip) as content:
            for name in content.namelist():
                _text(archive, f"opt/pip/{name}", content.read(name).decode("utf-8", "surrogateescape"))
        for wheel in sorted(wheels.iterdir()):
            archive.add(wheel, f"opt/wheels/{wheel.name}")
    return buffer.getvalue()


def _system(archive: tarfile.TarFile, *programs: str) -> None:
    """Interpreter, standard library, shell, programs, and the libraries that they load."""
    _folder(archive, "tmp", 0o1777)
    archive.add(str(shutil.which("busybox")), "bin/busybox")
    for applet in APPLETS:
        entry = tarfile.TarInfo(f"bin/{applet}")
        entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
        archive.addfile(entry)
    stdlib = Path(sysconfig.get_path("stdlib"))
    archive.add(PYTHON, PYTHON.lstrip("/"))
    archive.add(stdlib, str(stdlib).lstrip("/"), filter=_library_only)
    for program in programs:
        archive.add(program, program.lstrip("/"))
    for library in _shared_libraries(stdlib, programs):
        archive.add(os.path.realpath(library), library.lstrip("/"))


def config(module: str) -> dict[str, object]:
    """An image's settings: `python -m module` as the agent's user."""
    return {
        "Env": ["PATH=/usr/bin:/bin", "PYTHONPATH=/opt/gpunex:/opt/packages", "PYTHONDONTWRITEBYTECODE=1"],
        "Entrypoint": [PYTHON, "-m", module],
        "Cmd": ["version"],
        "User": f"{AGENT_USER}:{AGENT_USER}",
        "WorkingDir": "/opt/gpunex",
    }


def _folder(archive: tarfile.TarFile, name: str, mode: int, owner: int = 0) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
    archive.addfile(entry)


def _text(archive: tarfile.TarFile, name: str, text: str, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    content = text.encode("utf-8", "surrogateescape")
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _library_only(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(entry.name).name
    return None if name in _LEFT_OUT or name.startswith(("config-", "_tkinter")) or name.endswith(".a") else entry


def _packages() -> list[tuple[Path, str]]:
    """(file, its place below site-packages) of everything that agent/requirements.txt pins for this system."""
    names = re.findall(
        r"^([a-z0-9-]+)==[^;\\]+(?:; (\S+) .*)?\\?$", (ROOT / "agent/requirements.txt").read_text(), re.M
    )
    files = []
    for name, marker in names:
        if marker != "sys_platform":
            package = distribution(name)
            files += [(Path(str(file.locate())), str(file)) for file in package.files or () if ".." not in str(file)]
    return [(source, name) for source, name in files if source.exists()]


def _shared_libraries(stdlib: Path, programs: tuple[str, ...]) -> list[str]:
    modules = [str(path) for path in (stdlib / "lib-dynload").glob("*.so") if "_tkinter" not in path.name]
    modules += [str(source) for source, _ in _packages() if source.suffix == ".so"]
    listed = subprocess.run(["ldd", PYTHON, *programs, *modules], capture_output=True, text=True, check=False).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", listed)))
