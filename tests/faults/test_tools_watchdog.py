"""The app is killed and can end nothing itself: what it had started ends all the same."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from support.mcp_servers import HOSTILE, is_running
from support.prepared import PreparedProcess, running_program
from support.serving import served
from support.session import action, decision, done, script
from support.shell import running_with, sleeping

from duckflow_tui.tools.process_group import ProcessGroup
from duckflow_tui.tools.process_table import Offspring, read_process
from duckflow_tui.tools.watchdog import Watchdog

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")

ROOT = str(Path(__file__).parents[2])
WITHIN = 2.0  # seconds after a kill
PATIENCE = 20.0  # seconds until a wait has failed

#: Children as programs leave them: in the background, in a session of their own, without a parent,
#: without the environment they were given, deaf to being asked.
TREE = """
sleep {0}1 &
setsid sleep {0}2 &
(setsid sleep {0}3 &)
setsid env -i sleep {0}4 &
sh -c 'trap "" TERM INT HUP; while :; do sleep {0}5; done' &
wait
"""


def comes(holds: Callable[[], bool], within: float) -> bool:
    """Whether it becomes so in time; other programs' processes cannot be waited for."""
    end = time.monotonic() + within
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def watchdogs_of(pid: int) -> list[int]:
    """The watchdog among a process's children."""
    found = ((p, read_process(p)) for p in running_with("watchdog_worker"))
    return [p for p, process in found if process is not None and process.parent == pid]


@contextlib.contextmanager
def app(
    tmp_path: Path, base_url: str, *allow: str
) -> Generator[subprocess.Popen[bytes] | PreparedProcess]:
    """The program without a screen."""
    (tmp_path / "work").mkdir(exist_ok=True)
    argv = ["-p", "go", "--dir", str(tmp_path / "work")]
    argv += ["--base-url", base_url, "--model", "scripted", "--protocol", "json"]
    for rule in allow:
        argv += ["--allow", rule]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": ROOT}
    with running_program(argv, cwd=tmp_path, environ=environ) as process:
        yield process


def with_a_server(tmp_path: Path, mark: str) -> None:
    """A server of tools that starts a child, in the settings; other tests run the same script."""
    settings = tmp_path / "home" / "config" / "settings.toml"
    settings.parent.mkdir(parents=True)
    line = f"setsid sleep {mark}7 & exec {sys.executable} -I -X mark{mark} {HOSTILE}"
    settings.write_text(
        f'[mcp.servers.hostile]\ncommand = "sh"\nargs = ["-c", {json.dumps(line)}]\n'
    )


def test_a_killed_app_leaves_no_command_and_no_server(tmp_path: Path, mark: str) -> None:
    """A command, one in the background and a server of tools, each with children that went away."""
    with_a_server(tmp_path, mark)
    (tmp_path / "work").mkdir()
    (tmp_path / "work/tree.sh").write_text(TREE.format(mark))
    background = f"sleep {mark}6"
    asked = decision(
        "Both.",
        action("shell.run", command=background, background=True),
        action("shell.run", command="sh tree.sh"),
    )
    with (
        served(script(asked, done())) as server,
        app(tmp_path, server.endpoint.base_url, background, "sh tree.sh") as process,
    ):
        assert comes(
            lambda: all(running_with(f"sleep\0{mark}{n}") for n in range(1, 8)), PATIENCE
        ), running_with(mark)
        (watchdog,) = watchdogs_of(process.pid)
        assert comes(lambda: len(running_with(f"-X\0mark{mark}")) == 1, PATIENCE)
        process.kill()
        killed = time.monotonic()
        assert comes(lambda: not running_with(mark), WITHIN), running_with(mark)
        assert comes(lambda: not is_running(watchdog), WITHIN - (time.monotonic() - killed))


def test_an_app_that_ends_leaves_no_watchdog(tmp_path: Path, mark: str) -> None:
    command = f"sleep 0.5{mark}"
    asked = decision("It waits.", action("shell.run", command=command))
    with (
        served(script(asked, done())) as server,
        app(tmp_path, server.endpoint.base_url, command) as process,
    ):
        assert comes(lambda: bool(watchdogs_of(process.pid)), PATIENCE)
        (watchdog,) = watchdogs_of(process.pid)
        assert process.wait(PATIENCE) == 0
        assert not is_running(watchdog)


STARTS = """
import asyncio, os, sys
from duckflow_tui.tools.process_group import ProcessGroup
from duckflow_tui.tools.watchdog import Watchdog

async def main():
    watchdog = Watchdog()
    print("begun", flush=True)
    for _ in range(300):
        await ProcessGroup.start(("sleep", sys.argv[1]), "/", dict(os.environ), watchdog)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_no_moment_of_a_start_leaves_a_command_behind(mark: str) -> None:
    chance = random.Random(3)
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", STARTS, f"{mark}0"],
            env={**os.environ, "PYTHONPATH": ROOT},
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            time.sleep(chance.uniform(0, 0.06))  # any moment will do
            process.kill()
        assert comes(lambda: not running_with(mark), WITHIN), running_with(mark)


# --- the watchdog alone; the end of its pipe is the end of the app --------------------------------


async def test_what_has_ended_or_was_let_go_is_not_signalled(mark: str) -> None:
    watchdog = Watchdog()
    kept, ended = watchdog.expect_program(), watchdog.expect_program()
    with sleeping(f"{mark}1", kept) as goes_on, sleeping(f"{mark}2", ended) as ends:
        watchdog.register_program(kept, goes_on.pid)
        watchdog.register_program(ended, ends.pid)
        watchdog.forget_program(kept)
        await watchdog.close()
        assert ends.wait(PATIENCE) == -signal.SIGTERM
        assert is_running(goes_on.pid)


async def test_a_number_that_was_given_to_another_process_is_left_alone(mark: str) -> None:
    """As if the leader, which began before, had ended and its number had come round again."""
    with sleeping(f"{mark}1", "someone else's") as stranger:
        seen = read_process(stranger.pid)
        assert seen is not None
        other = Offspring("ours", stranger.pid, seen.began - 1)
        same = Offspring("ours", stranger.pid, seen.began)
        assert other.find_running(lambda _: True) == frozenset()
        assert same.find_running(lambda _: True) == frozenset({stranger.pid})


async def test_signals_that_end_an_app_do_not_end_its_watchdog(mark: str) -> None:
    """It has no terminal, no variable and no file of ours, and a session of its own."""
    watchdog = Watchdog()
    started = watchdog.expect_program()
    with sleeping(f"{mark}1", started) as process:
        watchdog.register_program(started, process.pid)
        pid = watchdog.pid
        assert pid is not None
        assert comes(lambda: _ignores(pid, signal.SIGTSTP), PATIENCE)  # the last that it looks to
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(pid, number)
        assert os.getsid(pid) == pid
        assert _environ(pid) == b""
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        folder = f"/proc/{pid}/fd"
        opened = {name: os.readlink(f"{folder}/{name}") for name in os.listdir(folder)}
        assert opened.pop("0").startswith("pipe:")
        assert set(opened.values()) == {"/dev/null"}
        await watchdog.close()
        assert process.wait(PATIENCE) == -signal.SIGTERM


async def test_a_watchdog_that_was_killed_is_replaced_and_told_of_all(mark: str) -> None:
    watchdog = Watchdog()
    first = watchdog.expect_program()
    with sleeping(f"{mark}1", first) as before:
        watchdog.register_program(first, before.pid)
        gone = watchdog.pid
        assert gone is not None
        os.kill(gone, signal.SIGKILL)
        assert comes(lambda: not is_running(gone), PATIENCE)
        group = await ProcessGroup.start(("sleep", f"{mark}2"), "/", dict(os.environ), watchdog)
        assert watchdog.pid not in (gone, None)
        await watchdog.close()
        assert before.wait(PATIENCE) == -signal.SIGTERM
        assert await group.program.wait() == -signal.SIGTERM


async def test_nothing_is_started_before_there_is_something_to_watch() -> None:
    watchdog = Watchdog()
    assert watchdog.pid is None
    await watchdog.close()


def _environ(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored.split()[1], 16) >> (number - 1) & 1)
