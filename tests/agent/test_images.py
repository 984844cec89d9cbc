"""The images of a provider's host, as far as their recipe tells: what is in them, and as whom they run."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.host import ROOT

RECIPE = (ROOT / "agent" / "Dockerfile").read_text()


def stage(name: str) -> str:
    """The instructions of one stage, lines joined."""
    joined = RECIPE.replace("\\\n", " ")
    return re.split(rf"^FROM \S+ AS {name}$", joined, flags=re.M)[1].split("\nFROM ")[0]


def copied(name: str) -> list[str]:
    """Sources that a stage copies from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", stage(name), re.M)
    return [source for line in lines for source in line.split()[:-1]]


@pytest.mark.parametrize(("name", "user"), [("guard", "0:64000"), ("agent", "64000:64000")])
def test_each_runs_as_it_should_and_can_be_built_on_any_base(name: str, user: str) -> None:
    assert re.findall(r"^USER (.+)$", stage(name), re.M) == [user]
    bases = re.findall(r"^FROM (\S+)", RECIPE, re.M)
    assert set(bases) == {"${BASE}", "ground"}


def test_every_copy_has_its_source_and_every_stage_comes_before_it_is_used() -> None:
    """What a build would find out only after its first minutes."""
    known: set[str] = set()
    for line in RECIPE.replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            assert base == "${BASE}" or base in known
            known.add(name)
        elif word == "COPY" and rest.startswith("--from="):
            assert rest.removeprefix("--from=").split()[0] in known
        elif word == "COPY":
            assert [source for source in rest.split()[:-1] if not (ROOT / source).exists()] == []
        else:
            assert word in ("ARG", "CMD", "ENTRYPOINT", "ENV", "RUN", "STOPSIGNAL", "USER", "WORKDIR", "#", "")


def test_no_image_installs_what_only_builds_it() -> None:
    assert "apt-get" not in stage("ground") + stage("guard") + stage("agent")
    assert "--build-static" in stage("fio")


def test_packages_are_pinned_and_the_guard_has_none() -> None:
    assert "--require-hashes" in stage("packages")
    assert "pip" not in stage("ground") + stage("guard")
    assert "--from" not in stage("guard")


def test_the_guards_image_holds_all_that_it_imports(tmp_path: Path) -> None:
    """Run from a copy of exactly those files, by an interpreter without any packages."""
    for source in copied("ground") + copied("guard"):
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / source)
        else:
            (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, tmp_path / source)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "agent.guard", "--help"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "--job-network" in done.stdout


def test_the_guard_imports_the_standard_library_and_what_its_image_holds() -> None:
    ours = {source.removesuffix(".py").replace("/", ".") for source in copied("guard")}
    for path in (ROOT / "agent" / "guard").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for name in names:
                top = name.partition(".")[0]
                known = name in ours or name.startswith("agent.guard") or top == "agent_protocol"
                assert known or (top in sys.stdlib_module_names), (path.name, name)
