"""The installed program in a terminal against an endpoint: with keys, and with hostile text."""

from __future__ import annotations

import random
import re
import signal
import sys
from pathlib import Path
from typing import Literal

import pytest
from support.prepared import run_program
from support.pty import Terminal, process_state
from support.serving import served
from support.session import action, decision, done, script

from duckflow_tui.scripted.replies import Reply, Script
from duckflow_tui.ui.panes.key_guard import ANEW_S

GATE_DEAF = 0.4  # seconds; a gate ignores keys for 0.3 s after it got the focus
MARK = "PWNED"


def start(
    tmp_path: Path, base_url: str, *flags: str, width: int = 120, height: int = 40
) -> Terminal:
    """The program in ``tmp_path/work``, its own files in ``tmp_path/home``."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "duckflow_tui", "--base-url", base_url, "--model", "m", *flags]
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home")}
    return Terminal(command, cwd=work, environ=environ, width=width, height=height)


@pytest.mark.parametrize("protocol", ["tools", "json"])
def test_read_edit_through_the_gate_with_keys(
    tmp_path: Path, protocol: Literal["tools", "json"]
) -> None:
    """Covers S4-60, S4-69, S4-94."""
    edit = action("file_ops.edit_file", path="a.py", edits=[{"old": "x = 1", "new": "x = 2"}])
    replies = script(
        decision("Let me look.", action("file_ops.read_file", path="a.py")),
        decision("I raise it.", edit),
        done("Raised to two."),
    )
    with (
        served(replies) as server,
        start(tmp_path, server.endpoint.base_url, "--protocol", protocol) as terminal,
    ):
        (tmp_path / "work" / "a.py").write_bytes(b"x = 1\r\n")
        terminal.sees("Message")
        terminal.type("make it two\r")
        terminal.sees("Edit a.py", "x = 2")
        terminal.type("y")  # the composer has the focus: a letter, and no consent
        terminal.listen(0.5)
        assert (tmp_path / "work" / "a.py").read_bytes() == b"x = 1\r\n"
        terminal.type("\x7f\r")
        terminal.sees("Esc back")
        terminal.listen(GATE_DEAF)
        terminal.type("y")
        terminal.sees("Raised to two.")
        assert (tmp_path / "work" / "a.py").read_bytes() == b"x = 2\r\n"


@pytest.mark.parametrize("typed", ["nobody asked", "nyes please, smaller"])
def test_a_reason_that_comes_in_one_read_rejects_and_never_approves(
    tmp_path: Path, typed: str
) -> None:
    """Covers S4-60. The model gets the whole of it."""
    write = action("file_ops.write_file", path="a.txt", content="1\n")
    with (
        served(script(decision("I write.", write), done("Left alone."))) as server,
        start(tmp_path, server.endpoint.base_url) as terminal,
    ):
        terminal.sees("Message")
        terminal.type("write it\r")
        terminal.sees("Enter to decide")
        terminal.type("\r")
        terminal.sees("Esc back")
        terminal.listen(GATE_DEAF)
        terminal.type(typed)
        terminal.sees(typed[1:])
        terminal.type("\r")
        terminal.sees("Left alone.")
        assert not (tmp_path / "work" / "a.txt").exists()
        assert typed[1:] in str(server.endpoint.of("main")[-1])


def test_work_goes_on_while_the_editor_has_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor waits for a file that only the work beside it can write."""
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import pathlib, sys, time\n"
        "print('editing', flush=True)\n"
        "end = time.monotonic() + 20\n"
        "while not pathlib.Path('a.txt').exists() and time.monotonic() < end:\n"
        "    time.sleep(0.02)\n"
        "found = 'seen' if pathlib.Path('a.txt').exists() else 'missed'\n"
        "pathlib.Path(sys.argv[1]).write_text(found + ' it')\n"
    )
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {editor}")
    write = action("file_ops.write_file", path="a.txt", content="1\n")
    reply = Reply(decision=decision("I write.", write).decision, hold="rest", hold_after=20)
    with (
        served(script(reply, done("Written."))) as server,
        start(tmp_path, server.endpoint.base_url, "--mode", "trusted") as terminal,
    ):
        terminal.sees("Message")
        terminal.type("write it\r")
        server.reached("rest")
        terminal.type(b"\x07")
        terminal.writes(b"editing")
        server.release("rest")
        terminal.sees("seen it", "Written.")


def test_after_an_edit_of_the_proposal_the_new_diff_has_the_keys(tmp_path: Path) -> None:
    """What the user wrote is approved from the gate that shows it; the composer gets nothing."""
    write = action("file_ops.write_file", path="a.txt", content="one\n")
    with (
        served(script(decision("I write.", write), done("Written."))) as server,
        start(tmp_path, server.endpoint.base_url) as terminal,
    ):
        terminal.sees("Message")
        terminal.type("write it\r")
        terminal.sees("Enter to decide")
        terminal.type("\r")
        terminal.sees("Esc back")
        terminal.listen(GATE_DEAF)
        terminal.type("e")
        terminal.sees("shows the new diff")
        terminal.type("mine: \x13")
        terminal.sees("Edited by you", "Esc back")
        terminal.listen(GATE_DEAF)
        terminal.type("y")
        terminal.sees("Written.")
        assert (tmp_path / "work" / "a.txt").read_bytes() == b"mine: one\n"


@pytest.mark.parametrize("count", [600, 2000])
def test_a_long_new_file_is_approved_with_three_keys(tmp_path: Path, count: int) -> None:
    """Enter, y, y: no page after page, and what was not on screen is named before it is allowed."""
    text = "".join(f"value_{n} = {n}\n" for n in range(count))
    write = action("file_ops.write_file", path="big.py", content=text)
    with (
        served(script(decision("I write.", write), done("Written."))) as server,
        start(tmp_path, server.endpoint.base_url, width=80, height=24) as terminal,
    ):
        terminal.sees("Message")
        terminal.type("write it\r")
        terminal.sees("big.py", "Enter to decide")
        terminal.type("\r")
        terminal.sees("Esc back", f"of {count}")
        terminal.listen(GATE_DEAF)
        terminal.type("y")

        def adds_up() -> bool:
            """Whether a whole frame has come, and counts each line once."""
            text = terminal.text
            seen = re.search(rf"(?<!not )seen (\d+) of {count}\b", text)
            asked = re.search(rf"not seen (\d+) of {count}\b", text)
            if seen is None or asked is None:
                return False
            return int(seen[1]) + int(asked[1]) == count

        terminal.sees("You have not seen", f"of {count} changed lines", "allow anyway")
        terminal.until(adds_up, "two counts of the same lines")
        assert not (tmp_path / "work" / "big.py").exists()
        terminal.listen(1.1 * ANEW_S)
        terminal.type("y")
        terminal.sees("Written.")
        assert (tmp_path / "work" / "big.py").read_text() == text


def test_two_edits_of_one_reply_are_approved_without_going_back(tmp_path: Path) -> None:
    """After the first answer the focus stays for the second gate; its own second begins."""
    edits = [action("file_ops.write_file", path=f"{name}.txt", content="1\n") for name in "ab"]
    replies = script(decision("Both.", *edits), done("Both are written."))
    work = tmp_path / "work"
    with (
        served(replies) as server,
        start(tmp_path, server.endpoint.base_url, width=80, height=24) as terminal,
    ):
        terminal.sees("Message")
        terminal.type("write both\r")
        terminal.sees("a.txt", "Enter to decide")
        terminal.type("\r")
        terminal.sees("Esc back")
        terminal.listen(GATE_DEAF)
        terminal.type("y")
        terminal.sees("Write b.txt", "Esc back")
        assert (work / "a.txt").read_bytes() == b"1\n"
        assert not (work / "b.txt").exists()
        terminal.listen(GATE_DEAF)
        terminal.type("y")
        terminal.sees("Both are written.")
        assert (work / "b.txt").read_bytes() == b"1\n"


def test_the_reply_is_on_the_screen_while_the_rest_of_the_json_is_withheld(tmp_path: Path) -> None:
    """Covers S4-57."""
    reply = Reply(
        decision=done("It streams as it comes.", step="PLANNING").decision,
        hold="rest",
        hold_after=80,
        chunk_size=4,
    )
    with (
        served(script(reply)) as server,
        start(tmp_path, server.endpoint.base_url, "--protocol", "json") as terminal,
    ):
        terminal.sees("Message")
        terminal.type("hi\r")
        server.reached("rest")
        terminal.sees("It streams as it comes.", "Esc pauses")
        server.release("rest")
        terminal.until(lambda: "Esc pauses" not in terminal.text, "the end of the turn")


def test_an_interrupt_from_outside_ends_the_app_at_an_open_gate(tmp_path: Path) -> None:
    """Promise 2: it is no consent. Its exit status is that of a stop."""
    write = action("file_ops.write_file", path="a.py", content="x = 2\n")
    with (
        served(script(decision("I write.", write), done())) as server,
        start(tmp_path, server.endpoint.base_url) as terminal,
    ):
        terminal.sees("Message")
        terminal.type("write it\r")
        terminal.sees("Enter to decide")
        terminal.signal(signal.SIGINT)
        assert terminal.wait() == 130
        assert terminal.modes == terminal.modes_before
        assert bytes(terminal.output).rfind(b"\x1b[?1049l") > 0
        assert b"Traceback" not in terminal.output
        assert list((tmp_path / "work").iterdir()) == []
        assert len(server.endpoint.of("main")) == 1


def hostile(where: str) -> str:
    """Text that would act on a terminal or in markup; every part of it is marked."""
    mark = f"{MARK}{where}"
    return (
        f"\x1b]52;c;{mark}\x07 \x1b]8;;http://{mark}\x1b\\link\x1b]8;;\x1b\\ \x1b[31m{mark}\x1b[2J"
        f" \x9b1;1H{mark} \x90q{mark}\x9c \u202e{mark}\u2066 \x1bP{mark}\x1b\\ \x00\x08\x0c{mark}"
        f" [@click=app.quit]{mark}[/] [link=http://{mark}]x[/link] [bold red]{mark}"
        f" [x](http://{mark}) <a href='http://{mark}'>x</a>"
    )


#: What a terminal takes for a control string, with its 8-bit spellings, and single sequences.
_STRING = re.compile(rb"\x1b[\]P_X^](.*?)(?:\x07|\x1b\\)", re.DOTALL)
_CSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


def test_hostile_text_never_becomes_a_control_sequence_a_link_or_an_action(
    tmp_path: Path,
) -> None:
    """R13, R14: from the model, a file's name, a file's content and an operation's result."""
    name = f"e\x1b]52;c;{MARK}n\x07\u202e[@click=app.quit]{MARK}n.txt"
    replies = script(
        decision(
            hostile("m"),
            action("file_ops.list_dir"),
            action("file_ops.read_file", path=name),
            action("file_ops.search_text", pattern=MARK),
            rationale=hostile("r"),
            state_delta={"goal": hostile("g")},
        ),
        decision(
            hostile("p"),
            {
                **action(
                    "file_ops.write_file",
                    path=name,
                    content=hostile("w"),
                    alternatives=(hostile("a"),),
                ),
                "intent": hostile("i"),
                "reasoning": hostile("y"),
            },
        ),
        done(hostile("d"), question={"text": hostile("q"), "options": [hostile("o")]}),
    )
    replies = replies.model_copy(
        update={
            "replies": {
                "main": tuple(
                    reply.model_copy(update={"reasoning": hostile("t")})
                    for reply in replies.replies["main"]
                )
            }
        }
    )
    with served(replies) as server, start(tmp_path, server.endpoint.base_url) as terminal:
        (tmp_path / "work" / name).write_text(hostile("c"))
        terminal.sees("Message")
        terminal.type("go\r")
        terminal.sees("Enter to decide")
        terminal.type("\x0f")  # Ctrl+O: details of operations
        terminal.listen(0.5)
        for row in range(1, 41, 2):
            for column in (6, 30, 80, 110):
                terminal.type(f"\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m")
        terminal.listen(1.0)
        assert not terminal.ended
        terminal.type("\x1b\x1b")
        terminal.listen(0.3)
        terminal.sees(MARK)
        terminal.resize(60, 20)
        terminal.listen(0.7)
        terminal.resize(20, 5)
        terminal.listen(0.7)
        assert not terminal.ended
        output = bytes(terminal.output)
    marked = MARK.encode()
    inside = [found.group(0) for found in _STRING.finditer(output) if marked in found.group(0)]
    assert inside == []
    assert b"\x1b]8;" not in output
    assert b"\x1b]52;" not in output
    text = _CSI.sub(b"", _STRING.sub(b"", output)).decode()
    text = re.sub(r"\x1b[=>78(][0B]?", "", text)
    forbidden = sorted({f"U+{ord(c):04X}" for c in text if is_forbidden(c)})
    assert forbidden == []


def is_forbidden(char: str) -> bool:
    """C0 but the few that move the cursor, DEL, C1, bidi controls."""
    code = ord(char)
    return (
        (code < 0x20 and char not in "\r\n\x0e\x0f")
        or 0x7F <= code <= 0x9F
        or char in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
    )


def test_a_folder_is_trusted_with_keys_after_a_look_at_what_it_brings(tmp_path: Path) -> None:
    """Covers R10. Typing goes on beside the card, and a letter of a message answers nothing."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Use tabs, never spaces.\n")
    with (
        served(script(done("Hello."), done("Hello again."))) as server,
        start(tmp_path, server.endpoint.base_url) as terminal,
    ):
        terminal.sees("Trust this folder?", "AGENTS.md")
        terminal.type("y, hello\r")
        terminal.sees("Hello.")
        assert "never spaces" not in server.endpoint.of("main")[-1].text
        terminal.type("\r")
        terminal.sees("Esc back")
        terminal.listen(GATE_DEAF)
        terminal.type("l")
        terminal.sees("+ Use tabs, never spaces.")
        terminal.listen(GATE_DEAF)
        terminal.type("y")
        terminal.sees(", because you trust")
        terminal.type("hello\r")
        terminal.sees("Hello again.")
        assert "never spaces" in server.endpoint.of("main")[-1].text


def test_without_a_screen_the_command_line_says_whether_a_folder_is_trusted(
    tmp_path: Path,
) -> None:
    """Covers R10, R19."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("Use tabs, never spaces.\n")
    for flags in ((), ("--trust",)):
        with (
            served(script(done("Hello."))) as server,
            start(tmp_path, server.endpoint.base_url, "-p", "hello", *flags) as terminal,
        ):
            terminal.sees("Hello.")
            assert ("never spaces" in server.endpoint.of("main")[-1].text) is bool(flags)
            terminal.sees("because you trust" if flags else "Not used: AGENTS.md.")
    with start(tmp_path, "http://127.0.0.1:9/v1", "--trust") as terminal:
        terminal.sees("--trust needs -p")


def test_two_programs_in_one_folder_each_ask_for_their_own_change(tmp_path: Path) -> None:
    """What one wrote is in the diff of the other before its key counts."""
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.txt"
    file.write_text("nought\n")

    def writes(text: str) -> Script:
        edit = action("file_ops.write_file", path="a.txt", content=f"{text}\n")
        read = action("file_ops.read_file", path="a.txt")
        return script(decision("I look.", read), decision("I write.", edit), done(f"Now {text}."))

    with (
        served(writes("one")) as first,
        served(writes("two")) as second,
        start(tmp_path, first.endpoint.base_url) as one,
        start(tmp_path, second.endpoint.base_url) as two,
    ):
        for terminal in (one, two):
            terminal.sees("Message")
            terminal.type("write it\r")
            terminal.sees("Enter to decide", "nought")
            terminal.type("\r")
            terminal.sees("Esc back")
        one.listen(GATE_DEAF)
        one.type("y")
        one.sees("Now one.")
        assert file.read_text() == "one\n"
        two.sees("this is the new diff", "- one", "+ two")
        assert file.read_text() == "one\n"
        two.type("\r")
        two.sees("Esc back")
        two.listen(GATE_DEAF)
        two.type("n")
        two.sees("Enter rejects")
        two.type("\r")
        two.sees("Now two.")  # which its model says, and nothing makes true
        assert file.read_text() == "one\n"


@pytest.mark.parametrize("seed", [1])
def test_a_storm_of_sizes_while_text_streams_and_a_gate_waits_leaves_the_screen_whole(
    tmp_path: Path, seed: int
) -> None:
    """The gate, the draft and the terminal's cursor stand where they belong, in the
    same cells as on a screen that is drawn anew.
    """
    sizes = random.Random(seed)
    write = action("file_ops.write_file", path="a.txt", content="1\n")
    told = " ".join(f"word{n}" for n in range(250))
    slow = done(told).model_copy(update={"chunk_size": 12, "delay_s": 0.02})
    replies = script(decision("I write.", write), slow)
    with (
        served(replies) as server,
        start(tmp_path, server.endpoint.base_url, width=100, height=30) as terminal,
    ):
        terminal.sees("Message")
        terminal.type("write it\r")
        terminal.sees("Enter to decide")
        terminal.type("what is it for?\r")
        terminal.sees("word5")
        terminal.type("draft")
        terminal.sees("draft")
        for turn in range(30):
            start_of = len(terminal.output)
            terminal.resize(sizes.randint(20, 200), sizes.randint(5, 60))
            if turn % 3 == 0:  # else the next one comes before this one is drawn
                terminal.until(lambda s=start_of: len(terminal.output) > s, "anything drawn")
        terminal.signal(signal.SIGTSTP)
        terminal.until(lambda: process_state(terminal.pid) == "T", "the stop")
        terminal.resize(100, 30)
        terminal.signal(signal.SIGCONT)
        terminal.sees("Write a.txt", "Enter to decide", "draft", "F1 keys", "word249", "2 calls")

        def stands() -> bool:
            """Whether the cursor is behind what is written."""
            cursor = terminal.screen.cursor
            before = terminal.lines[cursor.y][: cursor.x]
            return before.endswith("drafted")

        terminal.type("ed")
        terminal.until(stands, "the cursor in the composer")
        while terminal.read(1.0):  # until nothing more is drawn
            pass
        lines = terminal.lines
        terminal.signal(signal.SIGTSTP)
        terminal.until(lambda: process_state(terminal.pid) == "T", "the stop")
        terminal.drain()
        terminal.screen.reset()
        terminal.signal(signal.SIGCONT)
        terminal.until(lambda: terminal.lines == lines, "the same screen")
        terminal.until(stands, "the cursor in the composer")


def test_a_session_is_called_after_its_work_until_the_user_names_it(tmp_path: Path) -> None:
    """In the header and in the list on the command line; the title of the terminal has the user's
    words alone.
    """
    stated = done("It does.", state_delta={"goal": "Discounts one after the other"})
    work, home = tmp_path / "work", tmp_path / "home"
    with (
        served(script(done("Hello."), stated)) as server,
        start(tmp_path, server.endpoint.base_url) as terminal,
    ):
        terminal.sees("Message")
        asked = "the total is wrong"
        for said, reply, title, own in (
            (asked, "Hello.", asked, asked),
            ("go on", "It does.", "Discounts one after the other", asked),
            ("/rename My shop", "My shop", "My shop", "My shop"),
        ):
            terminal.type(f"{said}\r")
            terminal.sees(reply)
            terminal.until(lambda title=title: title in terminal.lines[0])
            terminal.until(lambda own=own: terminal.screen.title.endswith(f"· {own}"))
    listed = run_program(["sessions"], cwd=work, environ={"DUCKFLOW_HOME": str(home)})
    assert "My shop" in listed.stdout
