"""What holds for every test: no clock in property tests, screens that start soon, the text of a
screen beside its picture, and no files left behind.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import secrets
import signal
import socket
import stat
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Generator
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
import textual.css.stylesheet as sheets
import textual.screen
from pytest_textual_snapshot import SVGImageExtension  # pyright: ignore[reportMissingTypeStubs]  # it has none
from support import drawing
from support.bench import Bench
from support.open_apps import OpenApps
from support.pictures import ScreenText, text_of
from support.pilots import caught_up
from support.pinned import KEY_DELAY
from support.prepared import UNTOUCHED
from support.shell import running_with
from support.whole import WHOLE, rounds, some_of
from textual._compositor import Compositor
from textual.app import App
from textual.css.model import RuleSet
from textual.css.parse import parse
from textual.css.tokenizer import Token
from textual.css.types import CSSLocation
from textual.pilot import Pilot

from duckflow_tui.llm.endpoints import LOOPBACK_PORTS, is_loopback
from duckflow_tui.ui.panes import key_guard

# Compiled modules are kept, so that no worker and no program that a test starts need compile all of
# them anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ |= UNTOUCHED
gc.disable()  # until all tests are collected

# Screens of tests are drawn 15 times a second instead of 60: a quarter of their time. Programs that
# a test starts draw as they do for a user.
setattr(textual.screen, "UPDATE_PERIOD", 1 / 15)  # noqa: B010  # Textual names it Final


drawing.install()
key_guard.DELAY_S = KEY_DELAY
key_guard.STAY_S = KEY_DELAY


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_apps() -> AsyncGenerator[OpenApps]:
    """Apps for all tests of a file that ask for them; those share a loop."""
    apps = OpenApps()
    yield apps
    await apps.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder to work in."""
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def bench(root: Path) -> Bench:
    """Operations on the files of ``root``."""
    return Bench(root)


@pytest.fixture
def mark() -> Generator[str]:
    """Digits that processes of this test have among their arguments; what is left is ended."""
    made = f"61{secrets.randbelow(10**8):08}"
    yield made
    for pid in running_with(made):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(autouse=True)
def screens_that_count_what_was_drawn(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much of a screen is drawn when nobody looks at it."""
    if "compositor" in request.path.name:
        monkeypatch.setattr(Compositor, "render_update", drawing.all_of_it)
    elif "diff" in request.path.name:
        monkeypatch.setattr(Compositor, "render_update", drawing.what_counts)


setattr(Pilot, "_wait_for_screen", caught_up)  # noqa: B010  # of every test


# Times on screens and in exports are those of one place, wherever the tests run.
os.environ["TZ"] = "UTC"
time.tzset()


#: Of a test with more cases, so many run without ``DUCKFLOW_TEST_WHOLE=1``.
CASES = 1

#: So many tests are compiled by who runs them.
FEW = 20

_OPENS_FILES = re.compile("test_(safety|session|tools)_")
_OPENS_FOLDERS = re.compile("test_(session_|tools_blobs)")


def pytest_configure() -> None:
    """Property tests have no clock, and try fewer examples unless the whole is asked for, where
    they do not say how many. Their library is compiled when it is imported, a second of
    work, and kept only from here on.
    """
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "duckflow",
        deadline=None,
        max_examples=rounds(100, 40),
        derandomize=True,  # a change fails for what it changed, never by chance
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("duckflow")


def pytest_xdist_auto_num_workers() -> int:
    """Three processes for each core: half of the time of a test is waiting, and with two a quarter
    of the cores' time was left.
    """
    return 3 * (os.cpu_count() or 1)


def pytest_configure_node(node: Any) -> None:
    """Tell a process of ``xdist`` what only the first one knows."""
    node.workerinput["sampled"] = _is_sampled(node.config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the tests once where that was not done, half of them on each of two cores: each
    process of ``xdist`` would compile all of them, which takes it ten seconds.
    """
    if session.config.getoption("dist", "no") == "no" or hasattr(session.config, "workerinput"):
        return
    tests = sorted(Path(__file__).parent.glob("*/test_*.py"))
    new = [test for test in tests if not _is_compiled(test)]
    started: list[int] = []
    for half in (new[::2], new[1::2]) if len(new) > FEW else ():
        if (pid := os.fork()) == 0:
            with open(os.devnull, "r+b") as nothing:
                os.dup2(nothing.fileno(), 1)
                os.dup2(nothing.fileno(), 2)
            try:
                for test in half:
                    _import(session, test)
            finally:
                os._exit(0)  # what is wrong with a test is told by who runs it
        started.append(pid)
    for pid in started:
        os.waitpid(pid, 0)
    gc.enable()  # nothing is collected here


def _import(session: pytest.Session, test: Path) -> object:
    """The module as pytest imports it, without its tests."""
    return cast("Any", pytest.Module).from_parent(session, path=test).obj


def _is_compiled(test: Path) -> bool:
    """Whether pytest has compiled this version of the file, or a newer one."""
    made = [path.stat().st_mtime for path in test.parent.glob(f"__pycache__/{test.stem}.*-pytest*")]
    return bool(made) and max(made) > test.stat().st_mtime


def _is_sampled(config: pytest.Config) -> bool:
    """Whether nobody chose files or tests, nor asked for the whole."""
    given: dict[str, bool] = getattr(config, "workerinput", {})
    chosen = config.option.keyword or config.option.markexpr
    by_path = config.args_source == pytest.Config.ArgsSource.ARGS
    return given.get("sampled", not (WHOLE or by_path or chosen))


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Of the cases of a test a sample runs in the README's command, but for those of ``unit``,
    which take no time. They are chosen before an item is made of each.
    """
    if _is_sampled(metafunc.config) and metafunc.definition.path.parent.name != "unit":
        calls = metafunc._calls  # pyright: ignore[reportPrivateUsage]  # no hook removes a case
        short = [call for call in calls if all(mark.name != "whole" for mark in call.marks)]
        calls[:] = some_of(short or calls, CASES)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is marked as long comes first; all else stays in its order. What is marked as whole
    does not run in the README's command.
    """
    if _is_sampled(config):
        items[:] = [item for item in items if item.get_closest_marker("whole") is None]
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        asks_for = "open_apps" in getattr(item, "fixturenames", ())
        if asks_for and iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


def pytest_collection_finish() -> None:
    """Look for garbage less often and never in what was imported, which nothing lets go: it was a
    tenth of the time of the screens. Until here it is not looked for at all.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 10, 10)


def pytest_sessionfinish() -> None:
    """Pytest looks for garbage five times at the end, and Python once more: seconds for each
    process. What is left is let go with the process.
    """
    gc.freeze()


_parsed: dict[object, list[RuleSet]] = {}
_last: tuple[dict[str, list[Token]], object] = ({}, ())  # variables asked for last


def _values(variables: dict[str, list[Token]]) -> object:
    """What the variables say: 135 of them, the same for all sheets of a start."""
    global _last
    if variables is not _last[0]:
        told = {name: tuple(token.value for token in variables[name]) for name in variables}
        _last = variables, tuple(told.items())
    return _last[1]


def _parse_once(
    scope: str,
    css: str,
    read_from: CSSLocation,
    *,
    variable_tokens: dict[str, list[Token]],
    is_default_rules: bool,
    tie_breaker: int,
) -> list[RuleSet]:
    """The rules of a sheet, for all apps of this process: an eighth of what a start costs."""
    key = (scope, css, read_from, is_default_rules, tie_breaker, _values(variable_tokens))
    if key not in _parsed:
        _parsed[key] = list(
            parse(
                scope,
                css,
                read_from,
                variable_tokens=variable_tokens,
                is_default_rules=is_default_rules,
                tie_breaker=tie_breaker,
            )
        )
    return _parsed[key]


setattr(sheets, "parse", _parse_once)  # noqa: B010  # the name is Textual's own


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool], snapshot: Any) -> Callable[..., bool]:
    """Whether the screen of an app looks as it did; its text is compared too, to be read."""

    def compare(app: App[Any], **how: Any) -> bool:
        same = snap_compare(app, **how)
        assert text_of(str(app.return_value)) == snapshot.use_extension(ScreenText)
        return same

    return compare


@pytest.fixture
def pictured(snapshot: Any) -> Callable[[App[Any]], None]:
    """Compares an app as it stands now with how it looked in a terminal of this size."""

    def compare(app: App[Any]) -> None:
        picture, name = app.export_screenshot(simplify=True), f"{app.size.width}x{app.size.height}"
        assert text_of(picture) == snapshot(name=name, extension_class=ScreenText)
        assert picture == snapshot(name=name, extension_class=SVGImageExtension)

    return compare


_asked: list[str] = []  # ports of this machine, where servers of the user may be


_connect = socket.socket.connect


def _watched(self: socket.socket, address: Any) -> None:
    if self.family != socket.AF_UNIX and address[1] in LOOPBACK_PORTS and is_loopback(address[0]):
        _asked.append(f"{address[0]}:{address[1]}")
    _connect(self, address)


setattr(socket.socket, "connect", _watched)  # noqa: B010  # of every test


@pytest.fixture(autouse=True)
def no_port_of_the_machine_asked() -> Generator[None]:
    """No test looks for servers on the ports where the user's own may be. Programs that tests start
    look nowhere by ``UNTOUCHED``.
    """
    _asked.clear()
    yield
    assert not _asked, _asked


@pytest.fixture
def port_of_nobody() -> Generator[int]:
    """A port of this machine that refuses connections; it is held, so that no server of another
    test gets it meanwhile.
    """
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Temporary files lie in a folder of this run and go with it. Nothing is left there but what
    the demo leaves on purpose: a project in which something changed.
    """
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        yield
    left = [path.name for path in folder.iterdir() if not path.name.startswith("duckflow-demo-")]
    assert not left, left


def _open_files(folders: bool) -> set[str]:
    """The regular files, and the folders, that this process has open; empty where the system
    does not tell.
    """
    found: set[str] = set()
    for number in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with contextlib.suppress(OSError):  # the list's own
            mode = os.fstat(int(number)).st_mode
            if stat.S_ISREG(mode) or (folders and stat.S_ISDIR(mode)):
                found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return found


@pytest.fixture(autouse=True)
def no_file_left_open(request: pytest.FixtureRequest) -> Generator[None]:
    """What a test of sessions or files opened is closed with it. Folders count where the test
    itself holds none: a workspace holds one.
    """
    if not _OPENS_FILES.match(request.path.name):
        yield
        return
    folders = _OPENS_FOLDERS.match(request.path.name) is not None
    before = _open_files(folders)
    yield

    def list_left() -> list[str]:
        return list(_open_files(folders) - before)

    end = time.monotonic() + 2.0  # a thread that was left behind may be closing one yet
    while list_left() and time.monotonic() < end:
        time.sleep(0.01)
    assert not list_left(), list_left()
