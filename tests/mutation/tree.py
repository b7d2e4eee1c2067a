"""A copy of the working tree in which sources are broken and tests are run."""

from __future__ import annotations

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
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mutation.entered import TARGET

#: The root of the repository.
ROOT: Final = Path(__file__).parents[2]

_MEMORY: Final = 8_000_000_000  # bytes of address space that broken code may fill
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
        return self._pytest(["-x"], tests, within, {})

    def entered_by(self, tests: Sequence[Path], within: float) -> dict[str, dict[str, Any]]:
        """What each test enters, how long it takes, and whether it passes as things are."""
        target = self._temp / "entered.json"
        target.unlink(missing_ok=True)
        paths = [path.as_posix() for path in tests]
        done = self._pytest(["-p", "mutation.entered"], paths, within, {TARGET: str(target)})
        if done.status not in (0, 1):
            raise SystemExit(f"The tests could not be run as they are:\n{done.text}")
        return json.loads(target.read_text(encoding="utf-8"))

    def _pytest(
        self, options: Sequence[str], tests: Sequence[str], within: float, more: dict[str, str]
    ) -> Outcome:
        listed = self._temp / "tests.txt"  # more than a command line may hold
        listed.write_text("\n".join(tests), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-n0", "-q", "--tb=line", "--no-header"]
        command += ["-p", "no:cacheprovider", "--hypothesis-seed=0", *options, f"@{listed}"]
        environ = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(self.root), str(self.root / "tests"))),
            "TMPDIR": str(self._temp),
            **more,
        }
        environ.pop("PYTEST_ADDOPTS", None)
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_bounded,
        )
        try:
            text = process.communicate(timeout=within)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            return Outcome("hang", "")
        finally:
            _end(process)
        if process.returncode == 0:
            return Outcome("", text, 0)
        failed = _FAILED.search(text)
        caught = failed[1] if failed else f"exit status {process.returncode}"
        return Outcome(caught, text, process.returncode)


@contextmanager
def copied() -> Generator[Copy]:
    """A copy that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as folder:
        yield Copy(Path(folder))


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it left running in its own session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
