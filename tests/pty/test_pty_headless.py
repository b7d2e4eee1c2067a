"""A run without a screen that is interrupted from outside."""

from __future__ import annotations

import fcntl
import json
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path
from typing import IO

import pytest
from support.prepared import PROGRAM, PipedProcess, is_prepared
from support.serving import served
from support.session import action, decision, done, script

DEADLINE = 40.0  # seconds until a wait has failed
MORE_THAN_A_PIPE_HOLDS = 2_000_000


def start(
    tmp_path: Path,
    base_url: str,
    text: str,
    *,
    as_json: bool = True,
    out: IO[str] | None = None,
    more: tuple[str, ...] = (),
) -> subprocess.Popen[str] | PipedProcess:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    command = [*PROGRAM, "-p", *([text] if text else []), "--mode", "trusted"]
    command += ["--base-url", base_url, "--model", "m", "--protocol", "json"]
    command += ["--json"] if as_json else []
    command += more
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
    if is_prepared(command):
        return PipedProcess(command, cwd=work, environ=environ, out=out)
    return subprocess.Popen(
        command,
        cwd=work,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=out or subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run of the tests in the background of a shell ignores it, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_an_interrupted_turn_ends_as_stopped(tmp_path: Path) -> None:
    reply = decision("I write.", action("file_ops.write_file", path="a.txt", content="x"))
    held = reply.model_copy(update={"hold": "rest", "hold_after": 40})
    with served(script(held)) as server:
        run = start(tmp_path, server.endpoint.base_url, "go")
        server.reached("rest")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=DEADLINE)
    assert run.returncode == 130, err
    last = json.loads(out.splitlines()[-1])
    assert (last["kind"], last["outcome"]) == ("turn_finished", "stopped")
    assert err == ""
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("level", "level_in_state", "status"), [("external", "external", 0), ("none", None, 3)]
)
def test_the_command_line_says_what_holds_the_commands(
    tmp_path: Path, level: str, level_in_state: str | None, status: int
) -> None:
    """In a container the user says that it is the sandbox: in trusted mode commands then run.
    Without any they do not, whatever else this machine has; a setting cannot say ``external``.
    """
    replies = script(decision("I run.", action("shell.run", command="echo $((6 * 7)) > a")), done())
    with served(replies) as server:
        run = start(tmp_path, server.endpoint.base_url, "go", more=("--sandbox", level))
        out, err = run.communicate(timeout=DEADLINE)
    records = [json.loads(line) for line in out.splitlines()]
    told = [record["level"] for record in records if record["kind"] == "sandbox_tested"]
    assert (run.returncode, told) == (status, [level_in_state] if level_in_state else []), err
    assert (tmp_path / "work/a").exists() is (status == 0)


@pytest.mark.parametrize("text", ["/undo", "／undo", "/trust", "/rename other", "/nonsense"])
@pytest.mark.parametrize("option", ["-p -", "-p"])
def test_text_from_a_pipe_is_a_message_and_never_a_command(
    tmp_path: Path, option: str, text: str
) -> None:
    """Another program wrote it, so it takes back, trusts and renames nothing."""
    write = action("file_ops.write_file", path="a.txt", content="kept")
    with served(script(decision("I write.", write), done())) as server:
        run = start(tmp_path, server.endpoint.base_url, "go")
        assert run.communicate(timeout=DEADLINE)[1] == ""
    with served(script(done())) as server:
        base_url = server.endpoint.base_url
        run = start(tmp_path, base_url, option.removeprefix("-p").strip(), more=("--resume",))
        assert run.stdin is not None
        run.stdin.write(text)
        out, err = run.communicate(timeout=DEADLINE)
        sent = [request.raw.decode() for request in server.endpoint.requests]
    assert (run.returncode, err) == (0, "")
    assert json.loads(out.splitlines()[-1])["kind"] == "turn_finished"
    assert any(json.dumps(text)[1:-1] in body or text in body for body in sent)
    assert (tmp_path / "work" / "a.txt").read_text() == "kept"


def test_an_interrupt_while_the_text_is_typed_leaves_no_traceback(tmp_path: Path) -> None:
    run = start(tmp_path, "http://127.0.0.1:9/v1", "-")
    assert run.stdin is not None
    run.stdin.write("x" * MORE_THAN_A_PIPE_HOLDS)  # returns once the program reads
    run.stdin.flush()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=DEADLINE)
    assert (run.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "words"])
def test_output_that_nobody_reads_ends_the_run(tmp_path: Path, as_json: bool) -> None:
    """As behind ``| head -1``: no traceback, no waiting, and of what is told on standard output
    record by record, no effect without its record.
    """
    write = action("file_ops.write_file", path="a.txt", content="x")
    replies = script(decision("First.", step="PLANNING"), decision("I write.", write), done())
    with served(replies) as server:
        run = start(tmp_path, server.endpoint.base_url, "go", as_json=as_json)
        assert run.stdout is not None
        run.stdout.close()
        _, err = run.communicate(timeout=DEADLINE)
    assert run.returncode == 1
    assert "Traceback" not in err
    assert "BrokenPipe" not in err
    assert (tmp_path / "work" / "a.txt").exists() is not as_json


def test_a_key_is_masked_in_records_and_in_the_pieces_of_a_stream(tmp_path: Path) -> None:
    key = "q7Lr2Vx9Tb4Nw8Kd"
    text = f"I write it down.\nThe api key is {key}, which stays here.\nThat is all."
    write = action("file_ops.write_file", path="a.txt", content=f"password={key}")
    reply = decision(text, write).model_copy(update={"chunk_size": 3})
    with served(script(reply, done("Done."))) as server:
        run = start(
            tmp_path, server.endpoint.base_url, "go", more=("--stream", "--mode", "trusted")
        )
        out, err = run.communicate(timeout=DEADLINE)
    assert key not in out
    records = [json.loads(line) for line in out.splitlines()]
    pieces = "".join(r["text"] for r in records if r["kind"] == "reply_delta")
    assert pieces.startswith(text.replace(key, "[redacted]")), err
    said = [message.get("text") for r in records if (message := r.get("message"))]
    assert text.replace(key, "[redacted]") in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with served(script(done())) as server, open("/dev/full", "w") as full:
        run = start(tmp_path, server.endpoint.base_url, "go", out=full)
        _, err = run.communicate(timeout=DEADLINE)
    assert run.returncode == 1
    assert err == (
        "The output could not be written, so the work was stopped: No space left on device\n"
    )


def full(pipe: IO[str]) -> bool:
    """Whether nothing more fits into the pipe, because nobody reads it."""
    found = fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4)
    return struct.unpack("i", found)[0] > 60_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("stream", ["json", "words", "told"])
def test_a_signal_ends_a_run_whose_output_nobody_reads(
    tmp_path: Path, stream: str, number: signal.Signals
) -> None:
    """Standard output as records, standard output as words, and standard error."""
    if stream == "told":
        look = action("file_ops.list_dir", path=".")
        replies = [decision("I think aloud. " * 20_000, look), done()]
    else:
        replies = [done("A long answer. " * 20_000)]
    with served(script(*replies)) as server:
        run = start(tmp_path, server.endpoint.base_url, "go", as_json=stream == "json")
        pipe = run.stderr if stream == "told" else run.stdout
        assert pipe is not None
        until = time.monotonic() + DEADLINE
        while not full(pipe) and time.monotonic() < until:
            time.sleep(0.01)
        assert run.poll() is None
        began = time.monotonic()
        run.send_signal(number)
        try:
            status = run.wait(10)
        finally:
            run.kill()
            run.communicate()
    assert time.monotonic() - began < 3.5  # with what the test itself takes
    assert status == 128 + number


def test_a_reader_that_is_slow_gets_all_of_it(tmp_path: Path) -> None:
    answer = "A long answer. " * 20_000
    with served(script(done(answer))) as server:
        run = start(tmp_path, server.endpoint.base_url, "go", as_json=False)
        assert run.stdout is not None
        until = time.monotonic() + DEADLINE
        while not full(run.stdout) and time.monotonic() < until:
            time.sleep(0.01)
        out, _ = run.communicate(timeout=DEADLINE)
    assert out.strip() == answer.strip()
    assert run.returncode == 0
