"""What some tests need beyond Python. Where it is missing exactly those tests are skipped, loudly.

With ``GPUNEX_NO_SKIPS=1`` (``.ci/run``) a skip of any kind fails the run: there, nothing may be missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PROGRAMS: dict[str, tuple[str, ...]] = {
    "engine": ("dockerd", "busybox"),
    "browser": ("chromium",),
    "compiler": ("gcc",),
    "fio": ("fio",),
    "linter": ("shellcheck",),
    "netfilter": ("nft", "ip"),
    "gettext": ("xgettext", "msgfmt", "msgmerge"),
}
"""Marker → programs; bin/test names the Debian packages they come from."""
SYSTEM_PYTHON = "/usr/bin/python3"
_OF_ITS_OWN = Path(sys.prefix) / "torch" / "bin" / "python"
TORCH_PYTHON = str(_OF_ITS_OWN) if _OF_ITS_OWN.exists() else SYSTEM_PYTHON
"""The environment that bin/test makes where pip finds torch for the processor, else the system's Python (`bin/test --deep`)."""
MODULES: dict[str, tuple[str, ...]] = {"torch": ("torch", "numpy")}
"""Marker → modules of TORCH_PYTHON. Only deep runs miss them: others do without where torch is not cheap to have."""

NEED_ROOT = {"engine", "netfilter"}
"""dockerd, and network namespaces."""

_SEARCH = os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin"
_skipped: list[str] = []


def missing(marker: str) -> list[str]:
    if marker in MODULES:
        return [f"{name} (for {TORCH_PYTHON})" for name in MODULES[marker] if not _importable(name)]
    lacking = [program for program in PROGRAMS[marker] if shutil.which(program, path=_SEARCH) is None]
    if marker in NEED_ROOT and os.geteuid() != 0:
        lacking.append("root")
    return lacking


@cache
def _importable(module: str) -> bool:
    """Whether torch's Python finds the module; it is not imported, which would take seconds."""
    ask = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        return subprocess.run([TORCH_PYTHON, "-I", "-c", ask], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    used = {marker for item in items for marker in (*PROGRAMS, *MODULES) if item.get_closest_marker(marker)}
    lacking = {marker: missing(marker) for marker in used}
    if os.environ.get("GPUNEX_DEEP") != "1":
        without = {marker for marker in MODULES if lacking.get(marker)}
        left_out = [item for item in items if any(item.get_closest_marker(marker) for marker in without)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        for marker, names in lacking.items():
            if names and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=f"MISSING on this machine: {', '.join(names)}"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _skipped and os.environ.get("GPUNEX_NO_SKIPS") == "1" and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _skipped:
        return
    verdict = "nothing may be skipped here" if os.environ.get("GPUNEX_NO_SKIPS") == "1" else "these did not run"
    terminalreporter.section(f"{len(_skipped)} SKIPPED: {verdict}", red=True, bold=True)
    for nodeid in _skipped:
        terminalreporter.line(nodeid)
