"""The program where its streams or its folders are not as it would wish: it ends, and says why."""

from __future__ import annotations

import fcntl
import itertools
import os
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from support.kept_app import mounting
from support.prepared import PROGRAM, UNTOUCHED, run_program
from support.pty import Terminal
from support.serving import Served, served
from support.session import done, script
from support.whole import some_of

DEADLINE = 30.0
JAPANESE = "こんにちは"
LONG = "A long answer. " * 20_000  # more than a pipe holds


def asking(server: Served) -> list[str]:
    url = server.endpoint.base_url
    return ["-p", "hi", "--base-url", url, "--model", "m", "--protocol", "json"]


# --- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoding", "as_json"),
    some_of([*itertools.product(["latin-1", "ascii", "cp932", "utf-16-le"], [False, True])], 2),
)
def test_no_character_ends_or_stops_a_run(tmp_path: Path, encoding: str, as_json: bool) -> None:
    """What an encoding lacks is written as an escape."""
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "PYTHONIOENCODING": encoding}
    with served(script(done(JAPANESE))) as server:
        arguments = [*asking(server), *(["--json"] if as_json else [])]
        with (tmp_path / "out").open("w+b") as out:
            process = subprocess.Popen(
                [*PROGRAM, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.PIPE,
                cwd=tmp_path,
                env={**os.environ, **UNTOUCHED, **environ},
            )
            _, err = process.communicate(timeout=DEADLINE)
    said = (tmp_path / "out").read_bytes().decode(encoding)
    escaped = JAPANESE.encode("ascii", "backslashreplace").decode()
    lacks = as_json or encoding in ("latin-1", "ascii")
    assert (process.returncode, (escaped if lacks else JAPANESE) in said) == (0, True), (said, err)


def test_a_locale_without_other_characters_ends_no_run(tmp_path: Path) -> None:
    """Not even the sandbox's own program is then given what the locale lacks."""
    places = {"DUCKFLOW_HOME": str(tmp_path / "home")}
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with served(script(done(JAPANESE))) as server:
        ended = subprocess.run(
            [*PROGRAM, *asking(server)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, **UNTOUCHED, "DUCKFLOW_SANDBOX__LEVEL": "auto", **places, **locale},
            timeout=DEADLINE,
            check=False,
        )
    escaped = JAPANESE.encode("ascii", "backslashreplace")
    assert (ended.returncode, ended.stdout.strip()) == (0, escaped), ended.stderr


class Ends(NamedTuple):
    """How a shell calls the program, and what comes of it."""

    shell: str
    status: int
    said: str  # on standard error, where that is open


STREAMS = {
    "output closed": Ends('"$@" >&-', 1, "could not be written"),
    "output full": Ends('"$@" >/dev/full', 1, "could not be written"),
    "errors closed": Ends('"$@" 2>&-', 0, ""),
    "errors full": Ends('"$@" 2>/dev/full', 0, ""),
    "both full": Ends('"$@" >/dev/full 2>&1', 1, ""),
    "input closed": Ends('"$@" <&-', 0, ""),
    "all closed": Ends('"$@" <&- >&- 2>&-', 1, ""),
}
COMMANDS = [["-p"], ["-p", "--json"], ["models"], ["sessions", "--all", "--json"], ["--help"]]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    ("name", "command"),
    some_of([*itertools.product(STREAMS, COMMANDS)], 5),
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_stream_that_cannot_be_written_ends_it_with_a_sentence(
    tmp_path: Path, name: str, command: list[str]
) -> None:
    case = STREAMS[name]
    with served(script(done(JAPANESE))) as server:
        arguments = [*asking(server), *command[1:]] if command[0] == "-p" else command
        ended = subprocess.run(
            ["sh", "-c", case.shell, "sh", *PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, **UNTOUCHED, "DUCKFLOW_HOME": str(tmp_path / "home")},
            timeout=DEADLINE,
            check=False,
        )
    err = ended.stderr.decode()
    assert "Traceback" not in err
    assert (ended.returncode, case.said in err) == (case.status, True), err


@pytest.mark.parametrize("command", some_of([["-p", "--json"], ["-p"]], 1), ids=" ".join)
def test_a_reader_that_pauses_gets_all_of_it(tmp_path: Path, command: list[str]) -> None:
    """As a pager does, which reads a screen at a time."""
    with served(script(done(LONG))) as server:
        process = subprocess.Popen(
            [*PROGRAM, *asking(server), *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, **UNTOUCHED, "DUCKFLOW_HOME": str(tmp_path / "home")},
        )
        pause_at_full_pipe(process)
        out, said = process.communicate(timeout=DEADLINE)
    assert (process.returncode, LONG in out.decode()) == (0, True), said


def test_a_pager_of_another_command_gets_all_of_it(tmp_path: Path) -> None:
    script_of = (
        "import sys; from duckflow_tui import cli; "
        "cli._run_command = lambda *_: (print('x' * 10**6), (0, False))[1]"
    )
    process = subprocess.Popen(
        [*PROGRAM[:1], "-c", f"{script_of}; sys.exit(cli.main(['models']))"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "DUCKFLOW_HOME": str(tmp_path / "home")},
    )
    pause_at_full_pipe(process)
    out, said = process.communicate(timeout=DEADLINE)
    assert (process.returncode, len(out)) == (0, 10**6 + 1), said


def pause_at_full_pipe(process: subprocess.Popen[bytes]) -> None:
    """Read nothing until the pipe is full, and for three seconds more."""
    assert process.stdout is not None
    held, until = b"\0" * 4, time.monotonic() + DEADLINE
    while int.from_bytes(held, sys.byteorder) < 60_000 and time.monotonic() < until:
        held = fcntl.ioctl(process.stdout, termios.FIONREAD, held)
        time.sleep(0.01)
    time.sleep(3)


# --- places --------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A state of the machine: what makes it, below a folder of the test, and what it changes."""

    make: Callable[[Path], object] = lambda home: None
    environ: Mapping[str, str] = MappingProxyType({})
    flags: tuple[str, ...] = ()
    bereft: bool = False


def written(text: bytes, *parts: str) -> Callable[[Path], object]:
    """Makes a file below the program's home."""

    def make(home: Path) -> None:
        path = home.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    return make


def folder(*parts: str) -> Callable[[Path], object]:
    """Makes a folder below the program's home where a file belongs."""
    return lambda home: home.joinpath(*parts).mkdir(parents=True)


def pipe(*parts: str) -> Callable[[Path], object]:
    """Makes a pipe that nobody writes, where a file belongs."""

    def make(home: Path) -> None:
        home.joinpath(*parts).parent.mkdir(parents=True)
        os.mkfifo(home.joinpath(*parts))

    return make


NOISE = bytes(range(256)) * 20
PLACES = {
    "deleted": Place(bereft=True),
    "deleted, home below it": Place(environ={"DUCKFLOW_HOME": "home"}, bereft=True),
    "no such home": Place(environ={"DUCKFLOW_HOME": "", "HOME": "/proc/nowhere"}),
    "home is a device": Place(environ={"DUCKFLOW_HOME": "/dev/null"}),
    "home is full": Place(environ={"DUCKFLOW_HOME": "/dev/full"}),
    "home has no name": Place(environ={"DUCKFLOW_HOME": "/tmp/" + "x" * 300}),
    "home of nobody": Place(environ={"DUCKFLOW_HOME": "/proc/home"}),
    "settings are a folder": Place(folder("config", "settings.toml")),
    "settings are noise": Place(written(NOISE, "config", "settings.toml")),
    "settings are a pipe": Place(pipe("config", "settings.toml")),
    "settings are deep": Place(written(b"a=" + b"[" * 5000, "config", "settings.toml")),
    "connections are noise": Place(written(NOISE, "data", "connections.json")),
    "connections are a pipe": Place(pipe("data", "connections.json")),
    "the log is a folder": Place(folder("state", "duckflow.log")),
    "sessions are a file": Place(written(b"", "state", "sessions")),
    "no such --dir": Place(flags=("--dir", "/nowhere/at/all")),
    "--dir is a file": Place(flags=("--dir", __file__)),
    "--dir is too long": Place(flags=("--dir", "/" + "y" * 5000)),
    "--dir of nobody": Place(flags=("--dir", "~nobody-of-that-name/x")),
}
ALL_COMMANDS = [
    ["-p", "hi"],
    ["-p", "/network", "--base-url", "http://127.0.0.1:9/v1", "--model", "m"],
    ["sessions"],
    ["sessions", "show", "x"],
    ["sessions", "export", "x"],
    ["sessions", "delete", "x"],
    ["sessions", "prune"],
    ["doctor"],
    ["doctor", "--json"],
    ["models"],
    ["replay", "x"],
    ["--help"],
    ["--version"],
]


@pytest.mark.parametrize(
    ("name", "command"),
    some_of([*itertools.product(PLACES, ALL_COMMANDS)][::3], 24),
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_a_command_ends_soon_and_in_words_wherever_it_is_called(
    tmp_path: Path, name: str, command: list[str]
) -> None:
    place = PLACES[name]
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    place.make(home)
    flags = place.flags if command[0] in ("-p", "sessions", "doctor") else ()
    ended = run_program(
        [*command, *flags],
        cwd=work,
        environ={"DUCKFLOW_HOME": str(home), "LANG": "C.UTF-8", **place.environ},
        bereft=place.bereft,
        seconds=DEADLINE,
    )
    said = ended.stdout + ended.stderr
    assert "Traceback" not in said
    assert "nternal error" not in said  # which it is none of
    assert ended.returncode in (0, 1, 2)
    assert said.strip()
    if place.flags and flags and command[0] == "-p":
        assert place.flags[1][:100] in ended.stderr
    if place.bereft and command[0] in ("-p", "sessions", "doctor"):
        assert (ended.returncode, "was deleted" in ended.stderr) == (2, True)


def test_a_folder_that_the_program_may_not_use_is_named(tmp_path: Path) -> None:
    """As a user who is not root."""
    locked = tmp_path / "locked"
    (locked / "in").mkdir(parents=True)
    locked.chmod(0)
    plain = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    try:
        for environ, flags in (
            ({"DUCKFLOW_HOME": str(locked / "home")}, []),
            ({}, ["--dir", str(locked / "in")]),
        ):
            ended = subprocess.run(
                [*plain, *PROGRAM, "doctor", *flags],
                cwd=tmp_path,
                env={**os.environ, **UNTOUCHED, "DUCKFLOW_HOME": str(tmp_path / "home"), **environ},
                capture_output=True,
                text=True,
                timeout=DEADLINE,
                check=False,
            )
            assert "Traceback" not in ended.stderr
            assert ended.returncode == 1
            assert str(locked) in ended.stdout + ended.stderr
    finally:
        locked.chmod(0o700)


def test_a_full_disk_is_said_and_the_answer_comes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with served(script(done("Hello."))) as server:
        ended = subprocess.run(
            [*mounting(home, "size=4k"), *PROGRAM, *asking(server)],
            cwd=tmp_path,
            env={**os.environ, **UNTOUCHED, "DUCKFLOW_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
    assert (ended.returncode, ended.stdout) == (0, "Hello.\n"), ended.stderr
    assert "The disk is full" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["settings are a pipe", "no such --dir"])
def test_the_terminal_is_as_before(tmp_path: Path, name: str) -> None:
    """Started on the screen: either the app comes and goes, or a sentence is left."""
    place = PLACES[name]
    home = tmp_path / "home"
    place.make(home)
    command = [*PROGRAM, "--demo" if not place.flags else "--no-animation", *place.flags]
    with Terminal(command, cwd=tmp_path, environ={"DUCKFLOW_HOME": str(home)}) as terminal:
        if not place.flags:
            terminal.sees("Message")
            terminal.type(b"\x03")
            terminal.sees("Ctrl+C")
            terminal.type(b"\x03")
        assert terminal.wait() == (2 if place.flags else 0)
        assert terminal.modes == terminal.modes_before
        assert "Traceback" not in bytes(terminal.output).decode()
