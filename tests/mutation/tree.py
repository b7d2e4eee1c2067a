"""A copy of the working tree in which sources are changed and tests are run."""

from __future__ import annotations

import importlib.util
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
from pathlib import Path
from typing import Final

#: The root of the repository.
ROOT: Final = Path(__file__).parents[2]

_MEMORY: Final = 8_000_000_000  # bytes of address space that code without its rule may fill
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Copy:
    """The tree as it is now, with changes that are not committed."""

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
        """Replace the text of a file within the block."""
        file = self.root / path
        before = file.read_bytes()
        try:
            _write_source(file, text.encode())
            yield
        finally:
            _write_source(file, before)

    def run(self, tests: Sequence[str], within: float) -> str:
        """Run tests to the first failure, for at most ``within`` seconds. Returns the test that
        failed, "hang" after the time limit, or an empty text where all passed.
        """
        paths = os.pathsep.join((str(self.root), str(self.root / "tests")))
        env = os.environ | {"PYTHONPATH": paths, "TMPDIR": str(self._temp)}
        env.pop("PYTEST_ADDOPTS", None)
        options = ["-x", "-n0", "-q", "--tb=line", "--no-header", "-p", "no:cacheprovider"]
        child = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, "--hypothesis-seed=0", *tests],
            cwd=self.root,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY)),
        )
        try:
            output, _ = child.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            return "hang"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if not child.returncode:
            return ""
        failed = _FAILED.search(output.decode(errors="replace"))
        return failed[1] if failed else f"exit status {child.returncode}"


def _write_source(file: Path, data: bytes) -> None:
    """Write a source, and delete its compiled file, which is known by second and size alone."""
    file.write_bytes(data)
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


@contextmanager
def copied() -> Generator[Copy]:
    """Yield a copy that is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as folder:
        yield Copy(Path(folder))
