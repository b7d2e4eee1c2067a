"""Commands: a real bash, watched, bounded, and ended with everything it started (R07, R18)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest
from support.bench import DEADLINE, done
from support.shell import ShellBench, comes, running_with

from duckflow_tui.state.agent import AgentState
from duckflow_tui.state.base import StateError
from duckflow_tui.state.calls import OperationMessage, OperationOutput
from duckflow_tui.state.conversation import NoticeAdded
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.state.processes import KEPT, ProcessEnded, ProcessStarted
from duckflow_tui.state.session import ModeChanged
from duckflow_tui.state.store import MemoryRecorder, Record
from duckflow_tui.tools import shell
from duckflow_tui.tools.command_runner import CommandLimits, SandboxChoice
from duckflow_tui.tools.results import MAX_RESULT
from duckflow_tui.tools.shell import OwnCommands

RUN = "shell.run"


@contextlib.asynccontextmanager
async def opened(root: Path, **more: Any) -> AsyncGenerator[ShellBench]:
    bench = ShellBench(root, **more)
    try:
        yield bench
    finally:
        await bench.end_commands()


@pytest.fixture
async def bench(root: Path) -> AsyncGenerator[ShellBench]:
    async with opened(root) as made:
        yield made


async def run(bench: ShellBench, command: str, **args: Any) -> OperationMessage:
    """Ask, approve in the gate, wait for the end."""
    task = bench.begin(RUN, command=command, **args)
    gate = await bench.gate()
    await bench.answer(gate, GateChoice.ONCE)
    async with asyncio.timeout(2 * DEADLINE):
        return await task


async def started(bench: ShellBench, command: str, **args: Any) -> asyncio.Task[OperationMessage]:
    """Ask, approve, and return once it has printed something."""
    task = bench.begin(RUN, command=command, **args)
    gate = await bench.gate()
    await bench.answer(gate, GateChoice.ONCE)
    await bench.until(lambda state: bool(state.outputs))
    return task


def hear_output(bench: ShellBench) -> list[str]:
    """The pieces of output that are recorded from now on, as they come."""
    heard: list[str] = []

    def listen(_: AgentState, record: Record) -> None:
        if isinstance(record.event, OperationOutput):
            heard.append(record.event.text)

    bench.store.subscribe(listen)
    return heard


# --- what comes back ---------------------------------------------------------------------------


async def test_the_result_begins_with_the_exit_code_and_holds_both_outputs_in_order(
    bench: ShellBench,
) -> None:
    message = await run(bench, "echo one; echo two >&2; echo three")
    assert message.result.outcome is Outcome.OK
    first, rest = message.result.text.split("\n", 1)
    assert first.startswith("exit 0 · ")
    assert rest == "one\ntwo\nthree"
    assert message.result.exit_code == 0
    assert message.result.summary == first


async def test_a_failing_check_is_information_and_not_a_failed_call(bench: ShellBench) -> None:
    message = await run(bench, "echo '1 failed'; exit 3")
    assert message.result.outcome is Outcome.OK
    assert message.result.exit_code == 3
    assert message.result.text.startswith("exit 3 · ")
    assert "1 failed" in message.result.text
    assert not message.result.went_well


async def test_a_program_that_does_not_exist_ends_with_127(bench: ShellBench) -> None:
    message = await run(bench, "no_such_program_here")
    assert message.result.exit_code == 127
    assert "command not found" in message.result.text


async def test_the_time_it_took_is_the_time_it_took(bench: ShellBench) -> None:
    message = await run(bench, "sleep 0.4")
    seconds = float(message.result.summary.rsplit("· ", 1)[1].removesuffix("s"))
    assert 0.4 <= seconds < 5


async def test_a_line_that_begins_with_a_dash_is_a_line(bench: ShellBench) -> None:
    message = await run(bench, "-i; echo still here")
    assert "still here" in message.result.text


@contextlib.contextmanager
def typed(text: str) -> Generator[None]:
    """Let this process have something to read on its standard input."""
    reading, writing = os.pipe()
    before = os.dup(0)
    try:
        os.write(writing, text.encode())
        os.dup2(reading, 0)
        yield
    finally:
        os.dup2(before, 0)
        for descriptor in (before, reading, writing):
            os.close(descriptor)


async def test_there_is_no_input_and_no_terminal(bench: ShellBench) -> None:
    with typed("what the user types"):
        message = await run(
            bench, "timeout 5 cat; tty; (exec </dev/tty) 2>&1; ps -o pgid=,sid= -p $$; echo $$"
        )
    assert "what the user types" not in message.result.text
    assert "not a tty" in message.result.text
    assert "No such device" in message.result.text
    *_, ids, pid = message.result.text.splitlines()
    assert set(ids.split()) == {pid}


async def test_output_is_shown_while_it_comes(bench: ShellBench, root: Path) -> None:
    task = await started(bench, "echo first; while [ ! -e go ]; do sleep 0.02; done; echo last")
    assert next(iter(bench.store.state.outputs.values())).text == "first\n"
    assert not task.done()
    (root / "go").touch()
    message = await done(task)
    assert message.result.text.endswith("first\nlast")


async def test_output_in_many_pieces_becomes_few_events(bench: ShellBench) -> None:
    seen = hear_output(bench)
    program = "for n in range(5_000):\n    print(n, flush=True)"
    began = time.monotonic()
    await run(bench, f'{sys.executable} -c "{program}"')
    took = time.monotonic() - began
    assert 0 < len(seen) <= 20 * took + 5
    assert "".join(seen) == "".join(f"{number}\n" for number in range(5_000))


async def test_a_progress_bar_is_one_line_and_few_events(bench: ShellBench) -> None:
    seen = hear_output(bench)
    program = (
        "import sys\nfor n in range(100_000):\n    sys.stdout.write(f'\\r{n:6d} %')\nprint(' ok')"
    )
    began = time.monotonic()
    message = await run(bench, f'{sys.executable} -c "{program}"')
    took = time.monotonic() - began
    assert message.result.text.split("\n", 1)[1] == " 99999 % ok"
    assert 0 < len(seen) <= 20 * took + 5
    assert sum(map(len, seen)) < 200_000


async def test_bytes_that_are_no_text_are_shown_as_such(bench: ShellBench) -> None:
    message = await run(bench, r"printf 'a\xff\xfeb\x00c\xe3\x81'; printf '\x82d\xe3'")
    assert message.result.text.split("\n", 1)[1] == "a��b\x00c\u3042d�"


async def test_much_output_keeps_memory_small_and_the_whole_on_disk(
    root: Path, tmp_path: Path
) -> None:
    """R18: head and tail for the model, the whole as a blob."""
    async with opened(root) as bench:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        message = await run(bench, "echo begin; yes 0123456789abcde | head -c 50000000; echo end")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        text = message.result.text
        assert len(text.encode()) <= MAX_RESULT
        assert text.split("\n", 2)[1] == "begin"
        assert text.endswith("end")
        assert message.result.truncated_chars > 49_000_000
        assert (
            f'the whole is kept: file_ops.read_file with path "result:{message.result.blob}' in text
        )
        assert grown < 40_000  # kilobytes
        whole = tmp_path / "state/blobs" / message.result.blob[:2] / message.result.blob
        assert whole.stat().st_size == 50_000_000 + len("begin\nend\n")
    assert list((tmp_path / "state/spool").iterdir()) == []


async def test_what_is_over_the_limit_is_said_to_be_lost(root: Path) -> None:
    async with opened(root, limits=CommandLimits(max_output=1_000_000)) as bench:
        message = await run(bench, "yes abcdefg | head -c 3000000; echo; echo tail")
        assert "the first 1.0 MB are kept: " in message.result.text
        assert message.result.text.endswith("tail")
        assert len(await bench.kept.get(message.result.blob)) == 1_000_000


# --- how it ends -------------------------------------------------------------------------------


async def test_a_time_out_ends_the_command_and_its_grandchildren(
    bench: ShellBench, mark: str
) -> None:
    command = (
        f"echo here; (setsid sleep {mark} & ) ; (trap '' TERM; sleep {mark}; sleep {mark}) & wait"
    )
    began = time.monotonic()
    message = await run(bench, command, timeout_s=1)
    assert time.monotonic() - began < 5
    assert message.result.outcome is Outcome.ERROR
    assert "1 s" in message.result.text
    assert message.result.text.endswith("here")
    assert message.result.summary.startswith("time-out")
    assert running_with(mark) == []


async def test_a_stop_leaves_no_child_within_two_seconds(bench: ShellBench, mark: str) -> None:
    command = (
        f"echo here; trap '' TERM; setsid bash -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' & "
        f"env -i setsid sleep {mark} & nohup sleep {mark} >/dev/null 2>&1 & sleep {mark}"
    )
    task = await started(bench, command)
    began = time.monotonic()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await comes(lambda: not running_with(mark), 2)
    assert time.monotonic() - began < 2
    message = bench.store.state.messages[-1]
    assert isinstance(message, OperationMessage)
    assert message.result.outcome is Outcome.STOPPED
    assert message.result.text.startswith("stopped while it ran")
    assert message.result.text.endswith("here")


async def test_a_child_that_outlives_its_parents_is_ended_too(bench: ShellBench, mark: str) -> None:
    """It left its session, cleared its environment, and its parent obeys when it does not."""
    program = f"trap '' TERM; exec sleep {mark}"
    task = await started(bench, f'env -i setsid bash -c "{program}" & echo here; sleep {mark}')
    assert await comes(lambda: len(running_with(f"sleep\0{mark}")) == 2)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await comes(lambda: not running_with(mark), 2)


async def test_what_a_command_leaves_running_ends_with_it_and_is_told(
    bench: ShellBench, mark: str
) -> None:
    message = await run(bench, f"sleep {mark} & setsid -f sleep {mark} >/dev/null 2>&1; echo done")
    assert message.result.exit_code == 0
    assert "left running" in message.result.text
    assert running_with(mark) == []


async def test_the_end_of_the_session_ends_everything_even_when_it_is_cut_short(
    root: Path, mark: str
) -> None:
    async with opened(root, mode=ApprovalMode.STANDARD) as bench:
        await run(bench, f"trap '' TERM; sleep {mark}; sleep {mark}", background=True)
        task = await started(bench, f"echo x; trap '' TERM; setsid sleep {mark}; sleep {mark}")
        assert running_with(mark)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await bench.shell.close()
        assert await comes(lambda: not running_with(mark), 0.5)
        await asyncio.wait([task], timeout=DEADLINE)


async def test_commands_of_the_model_run_one_after_the_other(bench: ShellBench, root: Path) -> None:
    """Effects are serialised: a write waits for the command that runs."""
    task = await started(bench, "echo a; while [ ! -e go ]; do sleep 0.02; done")
    write = bench.begin("file_ops.write_file", path="new.txt", content="x\n")
    await bench.answer(await bench.gate(), GateChoice.ONCE)
    await bench.until(lambda state: not state.gates)
    second = bench.begin(RUN, command="echo b")
    await bench.answer(await bench.gate(), GateChoice.ONCE)
    await bench.until(lambda state: not state.gates)
    assert not (root / "new.txt").exists()
    assert [r.started for r in bench.store.state.running] == [True, False, False]
    (root / "go").touch()
    for running in (task, write, second):
        assert (await done(running)).result.outcome is Outcome.OK


# --- the environment ---------------------------------------------------------------------------


async def test_a_command_gets_only_what_it_needs_of_the_environment_and_what_the_user_names(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "rc").write_text("echo from the rc file\n")
    needed = {"HOME": str(tmp_path), "LANG": "C.UTF-8", "LC_TIME": "C", "VIRTUAL_ENV": "/v"}
    others = {
        "HARMLESS_ID": "very-secret-1",
        "My_Notes": "very-secret-2",
        "REDIS_URL": "redis://me:very-secret-3@host/0",
        "BASH_ENV": str(tmp_path / "rc"),
        "BASH_FUNC_ls%%": "() { echo hijacked; }",
        "LD_PRELOAD": "",
        "CONDA_PREFIX": "/elsewhere",
        "GIT_AUTHOR_NAME": "Somebody",
    }
    environ = {**needed, **others, "PATH": f"/v/bin:/usr/bin:/bin:.:{tmp_path}", "JAVA_HOME": "/j"}
    async with opened(root, environ=environ, sandbox=SandboxChoice(env=("JAVA_HOME",))) as bench:
        text = (await run(bench, "env; ls")).result.text
    assert not any(said in text for said in ("very-secret", "hijacked", "rc file"))
    assert not any(f"{name}=" in text for name in others)
    found = {**needed, "PATH": f"/v/bin:/usr/bin:/bin:{tmp_path}", "JAVA_HOME": "/j"}
    assert {*(f"{name}={value}" for name, value in found.items())} <= {*text.splitlines()}
    assert "TERM=dumb" in text.splitlines()


async def test_a_secret_that_a_command_gets_hold_of_is_not_repeated(root: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "SOME_TOKEN": "abcd1234efgh"}
    (root / "config").write_text("token=abcd1234efgh\n")
    async with opened(root, environ=environ) as bench:
        message = await run(bench, "cat config")
    assert message.result.text.endswith("token=[redacted]")


async def test_a_secret_is_neither_shown_while_it_is_printed_nor_in_what_is_kept(
    root: Path, tmp_path: Path
) -> None:
    """The whole is copied in pieces of a million bytes: one secret lies across their border."""
    secret, before = "abcd1234efgh", 999_994
    environ = {"PATH": "/usr/bin:/bin", "SOME_TOKEN": secret}
    (root / "config").write_text(secret)
    line = f"echo $(cat config); yes | head -c {before - 13}; cat config; yes | head -c 600000"
    async with opened(root, environ=environ) as bench:
        shown = hear_output(bench)
        message = await run(bench, line)
        kept = (
            tmp_path / "state/blobs" / message.result.blob[:2] / message.result.blob
        ).read_bytes()
    assert secret not in "".join(shown)
    assert secret.encode() not in kept
    assert kept[before - 2 :].startswith(b"[redacted]y")  # the first one became shorter, too
    assert len(kept) == before - 2 + 10 + 600_000


# --- consent -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [ApprovalMode.STRICT, ApprovalMode.STANDARD, ApprovalMode.TRUSTED])
async def test_without_a_sandbox_every_command_asks(root: Path, mode: ApprovalMode) -> None:
    """Covers S4-69. A line that writes to a file itself cannot be granted for longer than once."""
    async with opened(root, mode=mode) as bench:
        task = bench.begin(RUN, command="touch made && ls > made")
        gate = await bench.gate()
        assert not gate.can_grant_session
        assert not gate.can_grant_step
        assert gate.impact.reversible  # what it changes of files here
        assert gate.facts == {
            "runs": "touch made && ls > made",
            "cwd": ".",
            "timeout": "120 s",
            "sandbox": "none",
            "rule": "redirect",
        }
        with pytest.raises(StateError):
            await bench.answer(gate, GateChoice.SESSION)
        assert not (root / "made").exists()
        await bench.answer(gate, GateChoice.ONCE)
        assert (await done(task)).result.outcome is Outcome.OK
        assert (root / "made").exists()
        second = bench.begin(RUN, command="true")
        await bench.answer(await bench.gate(), GateChoice.REJECT)
        assert (await done(second)).result.outcome is Outcome.REJECTED


async def test_plan_mode_runs_nothing(root: Path) -> None:
    async with opened(root, mode=ApprovalMode.PLAN, allowed=("touch made",)) as bench:
        message = await bench.call(RUN, command="touch made")
        assert message.result.outcome is Outcome.DENIED
        assert not (root / "made").exists()


@pytest.mark.parametrize(
    "command",
    ["echo ok", "echo ok && echo ok", "cd . && echo ok 2>&1 | cat >/dev/null; echo  'ok'"],
)
async def test_what_was_named_runs_without_a_question_part_by_part(
    root: Path, command: str
) -> None:
    async with opened(root, allowed=("echo ok", "cat"), headless=True) as bench:
        message = await bench.call(RUN, command=command)
        assert message.result.outcome is Outcome.OK
        assert message.gate is None


@pytest.mark.parametrize(
    ("command", "cwd"),
    [
        ("echo ok more", "."),
        ("echo ok && touch x", "."),
        ("echo ok > x", "."),
        ("echo ok $(touch x)", "."),
        ("X=1 echo ok", "."),
        ("cd .. && echo ok", "."),
        ("cd / && echo ok", "."),
        ("cd link && echo ok", "."),
        ("cd missing; echo ok", "."),
        ("cd sub | echo ok", "."),
        ("cd sub", "."),
        ("echo ok &", "."),
        ("echo ok\necho ok", "."),
        ("echo ok", ".."),
        ("echo ok", "link"),
    ],
)
async def test_what_was_not_named_in_full_is_denied_where_nobody_can_be_asked(
    root: Path, tmp_path: Path, command: str, cwd: str
) -> None:
    (root / "sub").mkdir()
    (root / "link").symlink_to(tmp_path)
    async with opened(root, allowed=("echo ok",), headless=True) as bench:
        message = await bench.call(RUN, command=command, cwd=cwd)
        assert message.result.outcome is Outcome.DENIED
        assert not (root / "x").exists()


async def test_strict_mode_asks_for_what_was_named_too(root: Path) -> None:
    async with opened(root, allowed=("true",), headless=True, mode=ApprovalMode.STRICT) as bench:
        assert (await bench.call(RUN, command="true")).result.outcome is Outcome.DENIED


async def test_a_command_runs_in_the_folder_it_names(bench: ShellBench, root: Path) -> None:
    (root / "sub").mkdir()
    message = await run(bench, "pwd", cwd="sub")
    assert message.result.text.endswith(str(root / "sub"))
    for cwd in ("nowhere", "file"):
        (root / "file").touch()
        refused = await bench.call(RUN, command="pwd", cwd=cwd)
        assert refused.result.outcome is Outcome.ERROR
    (root / ".git").mkdir()
    inside = await bench.call(RUN, command="pwd", cwd=".git")
    assert inside.result.outcome is Outcome.DENIED


@pytest.mark.parametrize(
    "args",
    [
        {"command": ""},
        {"command": "a\0b"},
        {"command": "echo \ud800"},
        {"command": "x" * 20_001},
        {"command": "true", "timeout_s": 0},
        {"command": "true", "timeout_s": 1_801},
        {"command": ["ls"]},
    ],
)
async def test_arguments_that_cannot_be_meant_run_nothing(
    bench: ShellBench, args: dict[str, Any]
) -> None:
    message = await bench.call(RUN, **args)
    assert message.result.outcome is Outcome.INVALID


async def test_braces_of_other_programs_are_no_references(bench: ShellBench) -> None:
    message = await run(bench, "echo '{{.Names}}'")
    assert message.result.text.endswith("{{.Names}}")


async def test_what_colours_a_terminal_is_no_part_of_a_result(bench: ShellBench) -> None:
    message = await run(
        bench, r"printf '\033[1;31mFAILED\033[0m a.py\033]0;title\007\n\033(B1 failed\n'"
    )
    assert message.result.text.splitlines()[1:] == ["FAILED a.py", "1 failed"]
    assert message.result.blob == ""


# --- in the background -------------------------------------------------------------------------


async def test_a_background_command_is_listed_read_and_ended(bench: ShellBench, mark: str) -> None:
    message = await run(bench, f"echo ready; sleep {mark}; echo never", background=True)
    assert message.result.outcome is Outcome.OK
    assert "ready" in message.result.text
    (process,) = bench.store.state.processes
    assert process.process_id in message.result.text
    assert process.is_running
    assert bench.store.state.outputs[process.process_id].text == "ready\n"
    read = await bench.call("shell.output", process_id=process.process_id)
    assert read.gate is None
    assert "running" in read.result.text
    assert read.result.text.endswith("ready")
    ended = await bench.call("shell.end", process_id=process.process_id)
    assert ended.gate is None
    assert "SIGTERM" in ended.result.text
    (process,) = bench.store.state.processes
    assert (process.is_running, process.ended_by, process.exit_code) == (False, "model", -15)
    assert running_with(mark) == []
    again = await bench.call("shell.end", process_id=process.process_id)
    assert "ended already" in again.result.text
    unknown = await bench.call("shell.output", process_id="proc_nope")
    assert unknown.result.outcome is Outcome.ERROR
    assert process.process_id in unknown.result.text
    assert not [r for r in bench.recorder.records if isinstance(r.event, NoticeAdded)]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command in the background that ends by itself is waited for, however busy the machine."""
    monkeypatch.setattr(shell, "EARLY", DEADLINE)


@pytest.mark.usefixtures("patient")
async def test_an_early_end_is_told_at_once_and_only_once(bench: ShellBench) -> None:
    message = await run(bench, "echo 'port in use' >&2; exit 98", background=True)
    assert message.result.text.startswith("It ended at once")
    assert message.result.exit_code == 98
    assert "port in use" in message.result.text
    assert not bench.store.state.processes[0].is_running
    assert not [m for m in bench.store.state.messages if m.kind == "notice"]


async def test_the_model_is_told_of_a_background_command_that_ends_by_itself(
    bench: ShellBench, root: Path
) -> None:
    await run(
        bench, "echo up; while [ ! -e go ]; do sleep 0.02; done; echo boom; exit 7", background=True
    )
    (root / "go").touch()
    await bench.until(lambda state: any(m.kind == "notice" for m in state.messages))
    (notice,) = [m for m in bench.store.state.messages if m.kind == "notice"]
    assert notice.key == "processes.ended_itself"
    assert "exit 7" in notice.for_model
    assert "up\nboom" in notice.for_model
    assert bench.store.state.processes[0].exit_code == 7


@pytest.mark.usefixtures("patient")
async def test_of_background_commands_that_ended_the_newest_are_kept(bench: ShellBench) -> None:
    ended: list[str] = []
    for number in range(KEPT + 2):
        await run(bench, f"echo printed {number}; exit 1", background=True)
        ended.append(bench.store.state.processes[-1].process_id)
    state = bench.store.state
    assert [process.process_id for process in state.processes] == ended[2:]
    assert set(state.outputs) <= set(ended[2:])
    kept = await bench.call("shell.output", process_id=ended[2])
    assert "printed 2" in kept.result.text
    gone = await bench.call("shell.output", process_id=ended[1])
    assert gone.result.outcome is Outcome.ERROR
    assert ended[1] not in gone.result.text.partition("known:")[2]


async def test_the_user_ends_a_background_command(bench: ShellBench) -> None:
    await run(bench, "sleep 300", background=True)
    process_id = bench.store.state.processes[0].process_id
    assert await bench.shell.end_process(process_id)
    assert not await bench.shell.end_process(process_id)
    await bench.until(lambda state: any(m.kind == "notice" for m in state.messages))
    assert bench.store.state.processes[0].ended_by == "user"


async def test_the_app_s_end_is_recorded_for_a_background_command(root: Path) -> None:
    async with opened(root) as bench:
        await run(bench, "sleep 300", background=True)
    ended = [r.event for r in bench.recorder.records if isinstance(r.event, ProcessEnded)]
    assert [event.ended_by for event in ended] == ["app"]


async def test_a_stop_while_a_background_command_starts_ends_it(
    bench: ShellBench, mark: str
) -> None:
    task = await started(bench, f"echo x; sleep {mark}", background=True)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await comes(lambda: not running_with(mark), 2)


class StuckAtStarts(MemoryRecorder):
    """A disk that never says that a background command is recorded."""

    async def wait_until_flushed(self, seq: int) -> None:
        if isinstance(self.records[-1].event, ProcessStarted):
            await asyncio.Event().wait()


async def test_a_stop_before_a_background_command_is_recorded_ends_it_too(
    root: Path, mark: str
) -> None:
    async with opened(root, recorder=StuckAtStarts()) as bench:
        task = bench.begin(RUN, command=f"sleep {mark}", background=True)
        gate = await bench.gate()
        await bench.answer(gate, GateChoice.ONCE)
        await bench.until(lambda state: bool(state.processes))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await done(task)
        assert await comes(lambda: not running_with(mark), 2)


async def test_files_can_be_written_while_a_background_command_runs(bench: ShellBench) -> None:
    await run(bench, "sleep 300", background=True)
    bench.store.dispatch(ModeChanged(mode=ApprovalMode.TRUSTED, at=0.0))
    message = await bench.call("file_ops.write_file", path="a.txt", content="a\n")
    assert message.result.outcome is Outcome.OK


# --- the user's own ----------------------------------------------------------------------------


def own(bench: ShellBench) -> tuple[OwnCommands, list[asyncio.Task[None]]]:
    tasks: list[asyncio.Task[None]] = []

    def spawn(coroutine: Any, group: str) -> asyncio.Task[None]:
        assert group == "command"
        tasks.append(asyncio.create_task(coroutine))
        return tasks[-1]

    return OwnCommands(bench.router, bench.ids, spawn), tasks


async def test_the_user_s_own_command_needs_no_gate_and_has_their_environment(root: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "EDITOR_KEY": "k1", "CDPATH": "/"}
    async with opened(root, mode=ApprovalMode.PLAN, environ=environ) as bench:
        commands, tasks = own(bench)
        commands.run(" echo $EDITOR_KEY $CDPATH; touch made ")
        await done(tasks[0])
        message = bench.store.state.messages[-1]
        assert isinstance(message, OperationMessage)
        assert message.by_user
        assert message.gate is None
        assert message.result.text.startswith("$ echo $EDITOR_KEY $CDPATH; touch made\nexit 0 · ")
        assert message.result.text.endswith("k1 /")
        assert (root / "made").exists()


async def test_the_user_s_own_command_does_not_wait_and_can_be_stopped(
    bench: ShellBench, root: Path, mark: str
) -> None:
    task = await started(bench, "echo a; while [ ! -e go ]; do sleep 0.02; done")
    commands, tasks = own(bench)
    first = commands.run("echo mine")
    await done(tasks[0])
    assert not task.done()
    assert bench.store.state.messages[-1].kind == "operation"
    second = commands.run(f"echo long; sleep {mark}")
    await bench.until(lambda state: second in state.outputs)
    assert not commands.stop(first)
    assert commands.stop(second)
    with contextlib.suppress(asyncio.CancelledError):
        await done(tasks[1])
    assert await comes(lambda: not running_with(mark), 2)
    message = bench.store.state.messages[-1]
    assert isinstance(message, OperationMessage)
    assert message.result.outcome is Outcome.STOPPED
    assert message.result.text.endswith("long")
    (root / "go").touch()
    await done(task)


async def test_an_empty_line_of_the_user_runs_nothing(bench: ShellBench) -> None:
    commands, tasks = own(bench)
    assert commands.run("  ") == ""
    assert tasks == []


# --- undo --------------------------------------------------------------------------------------


async def test_undo_says_that_it_does_not_cover_a_command(root: Path) -> None:
    """Where the setting has it so; by default it does (test_tools_snapshot.py)."""
    bench = ShellBench(root, copies=0)
    await run(bench, "echo x > made")
    report = await bench.router.undoing.undo_last()
    assert report.key == "operations.undo.nothing_command"
    assert report.params == {"command": "echo x > made"}
    assert (root / "made").exists()
    await bench.approved("file_ops.write_file", path="a.txt", content="a\n")
    plain = await bench.router.undoing.undo_last()
    assert plain.key == "operations.undo.done"
    await bench.approved("file_ops.write_file", path="b.txt", content="b\n")
    await run(bench, "touch later")
    both = await bench.router.undoing.undo_last()
    assert both.key == "operations.undo.done_command"
    assert ("undo.commands_since", {"command": "touch later"}) in both.for_model
    await bench.end_commands()


async def test_a_record_of_a_command_is_plain_json(bench: ShellBench) -> None:
    await run(bench, r"printf '\x1b[31m\xff\x00'")
    for record in bench.recorder.records:
        json.dumps(record.as_json())
