"""A copy of the working tree in which sources are broken and tests are run."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from mutation.entered import TARGET

#: The root of the repository.
ROOT: Final = Path(__file__).parents[2]

#: What nearly every test imports and no mutation changes: imported once, before the processes
#: that run tests branch off.
_SHARED: Final = ("hypothesis", "openai", "pydantic", "pytest_asyncio", "textual.app", "xdist")

_MEMORY: Final = 8_000_000_000  # bytes of address space that broken code may fill
_AT_ONCE: Final = 4  # processes that look what tests come by; many tests only wait
_BROKE: Final = 70  # the exit status where pytest itself did not come to an end
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the tests said. ``caught``: the test that failed, "hang", or empty where all passed;
    ``status``: of pytest, 0 or 1 where the tests were run to their end.
    """

    caught: str
    text: str
    status: int | None = None


class Copy:
    """The tree as it is now, changes that are not committed included."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self._temp = folder / "tmp"
        self._temp.mkdir()
        for name in _SHARED:
            importlib.import_module(name)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
            source, target = ROOT / name, self.root / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)

    @contextmanager
    def changed(self, path: Path, text: str) -> Generator[None]:
        """Let a file hold something else for a while."""
        file = self.root / path
        before = file.read_bytes()
        try:
            self._put(file, text.encode())
            yield
        finally:
            self._put(file, before)

    def _put(self, file: Path, data: bytes) -> None:
        file.write_bytes(data)
        # A compiled file is known by second and size, which may both be the same.
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)

    def run(self, tests: Sequence[str], within: float) -> Outcome:
        """Run tests one after the other to the first failure, for so many seconds at most."""
        return self._ended(*self._begin(["-x"], tests), within)

    def entered_by(self, tests: Sequence[Path], within: float) -> dict[str, dict[str, Any]]:
        """What each test enters, how long it takes, and whether it passes as things are."""
        groups = [tests[first::_AT_ONCE] for first in range(min(_AT_ONCE, len(tests)))]
        targets = [self._temp / f"entered-{number}.json" for number, _ in enumerate(groups)]
        begun = [
            self._begin(["-p", "mutation.entered"], [p.as_posix() for p in group], target)
            for group, target in zip(groups, targets, strict=True)
        ]
        done = [self._ended(child, output, within) for child, output in begun]
        if texts := [one.text for one in done if one.status not in (0, 1)]:
            raise SystemExit("The tests could not be run as they are:\n" + "\n".join(texts))
        found: dict[str, dict[str, Any]] = {}
        for target in targets:
            found |= json.loads(target.read_text(encoding="utf-8"))
        return found

    def _begin(
        self, options: Sequence[str], tests: Sequence[str], entered: Path | None = None
    ) -> tuple[int, Path]:
        """Begin a run of tests in a process of its own: its number, and where its output goes."""
        args = ["-n0", "-q", "--tb=line", "--no-header", "-p", "no:cacheprovider"]
        args += ["--hypothesis-seed=0", *options, *tests]
        output = (entered or self._temp / "output").with_suffix(".txt")
        child = os.fork()
        if child == 0:
            self._become_pytest(args, output, {} if entered is None else {TARGET: str(entered)})
        return child, output

    def _ended(self, child: int, output: Path, within: float) -> Outcome:
        """What came of a run that was begun, ``within`` so many seconds."""
        status = _status_of(child, within)
        text = output.read_text(encoding="utf-8", errors="replace")
        if status is None:
            return Outcome("hang", text)
        if status == 0:
            return Outcome("", text, 0)
        failed = _FAILED.search(text)
        return Outcome(failed[1] if failed else f"exit status {status}", text, status)

    def _become_pytest(self, args: list[str], output: Path, more: dict[str, str]) -> NoReturn:
        """Run tests in this process, which is a child of ours, and end with their status."""
        status = _BROKE
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(file, 1)
            os.dup2(file, 2)
            os.chdir(self.root)
            paths = [str(self.root), str(self.root / "tests")]
            sys.path[:0] = paths
            os.environ.update(PYTHONPATH=os.pathsep.join(paths), TMPDIR=str(self._temp), **more)
            os.environ.pop("PYTEST_ADDOPTS", None)
            tempfile.tempdir = None  # it is another now
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for name in [n for n in sys.modules if n.partition(".")[0] == "mutation"]:
                del sys.modules[name]  # those of the copy know where they are
            status = int(pytest.main(args))
        finally:
            if status == _BROKE:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(status)


@contextmanager
def copied() -> Generator[Copy]:
    """A copy that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as folder:
        yield Copy(Path(folder))


def _status_of(child: int, within: float) -> int | None:
    """Its exit status, or None where it took too long; what it left running is ended too."""
    until = time.monotonic() + within
    try:
        while time.monotonic() < until:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None
