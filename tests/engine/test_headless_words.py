"""What a run without a screen says, and on which stream."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.prepared import run_program
from support.reviews import claim, judged, lacks, next_plan, works
from support.serving import served
from support.session import action, decision, done, script

from duckflow_tui.scripted.replies import Fault, Reply


def run(tmp_path: Path, base_url: str, *more: str) -> subprocess.CompletedProcess[str]:
    return ran(tmp_path, "--base-url", base_url, "--model", "m", "-p", "go", *more)


def ran(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    environ = {
        "DUCKFLOW_HOME": str(tmp_path / "home"),
        "LANG": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
    }
    return run_program(arguments, cwd=work, environ=environ)


def test_the_outcome_of_an_operation_is_said_in_words(tmp_path: Path) -> None:
    """R19: what was denied is said."""
    write = action("file_ops.write_file", path="../x", content="x")
    with served(script(decision("I write.", write), done())) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert ended.returncode == 3
    row = next(line for line in ended.stderr.splitlines() if "../x" in line)
    assert row.endswith(" denied")
    assert "outcome." not in ended.stderr


def test_what_was_denied_is_said_with_the_flags_that_let_it_run(tmp_path: Path) -> None:
    """Given as they stand there, they do."""
    write = action("file_ops.write_file", path="a.txt", content="x")
    runs = action("shell.run", command="test -e 'a b' || wc -c a.txt")
    with served(script(*(decision("I do it.", write, runs), done()) * 2)) as server:
        ended = run(tmp_path, server.endpoint.base_url)
        assert ended.returncode == 3
        row = next(line for line in ended.stderr.splitlines() if "This would allow it: " in line)
        flags = row.partition("allow it: ")[2]
        assert flags == "--mode trusted --allow 'test -e '\"'\"'a b'\"'\"'' --allow 'wc -c a.txt'"
        again = run(tmp_path, server.endpoint.base_url, *shlex.split(flags))
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "work" / "a.txt").read_text() == "x"


WRITES_SETUP = action("file_ops.write_file", path="Makefile", content="all:")  # which builds obey


@pytest.mark.parametrize(
    "calls",
    [
        (action("shell.run", command="echo $HOME"),),
        (WRITES_SETUP,),
        (WRITES_SETUP, action("shell.run", command="wc -c a.txt")),
    ],
)
def test_what_no_flag_lets_run_is_denied_without_one(tmp_path: Path, calls: Any) -> None:
    with served(script(decision("I do it.", *calls), done())) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert ended.returncode == 3
    assert "No option allows all of it in this mode" in ended.stderr
    assert "This would allow it" not in ended.stderr


def test_a_command_that_failed_is_not_called_done(tmp_path: Path) -> None:
    runs = action("shell.run", command="false")
    with served(script(decision("I run it.", runs), done())) as server:
        ended = run(tmp_path, server.endpoint.base_url, "--lang", "ja", "--allow", "false")
    row = next(line for line in ended.stderr.splitlines() if line.startswith("▸ 実行  false"))
    assert "終了コード 1" in row
    assert row.endswith(" 失敗")


def test_a_call_of_a_server_is_said_with_its_arguments_and_what_came_of_it(tmp_path: Path) -> None:
    ended = ran(tmp_path, "--demo", "-p", "100 + 200")
    row = next(line for line in ended.stderr.splitlines() if "mcp.calculator" in line)
    assert "100 + 200" in row
    assert "300" in row


def test_an_address_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "htp:/x")
    assert ended.returncode == 2
    assert ended.stderr == (
        "duckflow-tui: --base-url cannot be used: "
        "must begin with https:// or http:// and name a host.\n"
    )


def test_only_the_last_reply_is_on_standard_output(tmp_path: Path) -> None:
    look = action("file_ops.list_dir", path=".")
    replies = (decision("I look.", look), decision("I look again.", look), done("It is\n\nempty."))
    with served(script(*replies)) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert ended.returncode == 0
    assert ended.stdout == "It is\n\nempty.\n"
    first, second = ended.stderr.index("I look."), ended.stderr.index("I look again.")
    assert first < ended.stderr.index("▸ list  .") < second


def test_a_row_names_what_a_call_is_about_as_the_chat_does(tmp_path: Path) -> None:
    search = action("file_ops.search_text", path=".", pattern="TAX_RATE")
    with served(script(decision("I look.", search), done("It is not there."))) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert "▸ search  TAX_RATE  0 matches in 0 files  done" in ended.stderr.splitlines()


def test_a_reply_that_is_asked_for_again_is_no_result(tmp_path: Path) -> None:
    with served(script(decision("Hm."), done("Done."))) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert ended.stdout == "Done.\n"
    assert "Hm." in ended.stderr


def test_stuck_work_stops_and_says_why_what_was_done_and_what_is_missing(tmp_path: Path) -> None:
    """Nobody is there to ask, and no call is spent on the same again."""
    wanted = {"requirement": "TAX_RATE stands in calc.py", "priority": 1}
    note = action("file_ops.write_file", path="note.md", content="x\n")
    again = action("file_ops.search_text", pattern="TAX_RATE")
    replies = (
        decision("I note it.", note, requirements=[wanted]),
        *(decision("I look.", again) for _ in range(4)),
        done("Not asked for."),
    )
    with served(script(*replies)) as server:
        ended = run(tmp_path, server.endpoint.base_url, "--mode", "trusted")
        assert len(server.endpoint.of("main")) == 5
    assert ended.returncode == 4
    lines = ended.stderr.splitlines()
    cause = "The AI keeps making the same call, search TAX_RATE, which brings nothing new."
    assert [line for line in lines if cause in line] != []
    assert "Files changed: note.md" in lines
    assert "Not met: TAX_RATE stands in calc.py" in lines
    assert any(line.startswith("Stopped because it was stuck") for line in lines[-3:])


def test_the_records_begin_with_the_session(tmp_path: Path) -> None:
    with served(script(done())) as server:
        ended = run(tmp_path, server.endpoint.base_url, "--json")
    records = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert records[0]["kind"] == "session_started"


def test_a_retry_is_said_while_it_waits(tmp_path: Path) -> None:
    refused = Reply(fault=Fault(status=500))
    with served(script(refused, done("Done."))) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert ended.stdout == "Done.\n"
    said = r"^· server error · retrying in \d+ s$"
    assert re.search(said, ended.stderr, re.M), ended.stderr


def test_an_endpoint_of_the_command_line_is_named_by_its_flag(tmp_path: Path) -> None:
    answers = script(Reply(fault=Fault(status=404))).model_copy(update={"models": ("m",)})
    with served(answers) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert ended.returncode == 1
    assert "Check --base-url" in ended.stderr
    assert "endpoints.cli" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--demo", "--json"), "--json and --stream need -p"),
        (("--demo", "--stream"), "--json and --stream need -p"),
        (("-p", "x", "--max-calls", "abc"), "--max-calls abc cannot be used"),
        (("-p", "x", "--max-calls", "0"), "--max-calls 0 cannot be used"),
        (("-p", "x", "--max-calls", "9" * 5000), "cannot be used"),
        (("--lang", "ja", "-p", "x", "--max-calls", "-1"), "--max-calls -1 は使えません"),
        (("-p", "x", "--deny", "rm", "--deny", "a && b"), "--deny cannot be used: “a && b” names"),
        (("-p", "x", "--deny", " "), "--deny cannot be used: a rule must not be empty"),
        (("-p", "x", "--allow", "file_ops.write"), "“file_ops.write” is no command"),
        (("--lang", "ja", "-p", "x", "--deny", "$X"), "--deny は使えません。「$X」の変数"),
    ],
)
def test_flags_that_say_nothing_usable_are_refused_in_words(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = ran(tmp_path, *arguments)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert said in ended.stderr
    assert "_count" not in ended.stderr


def test_every_mistake_in_the_settings_is_said_before_the_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "home" / "config" / "settings.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[roles]\nmain = 'nowhere/m'\n[ui]\ntheme = 'pink'\nloud = 1\n")
    ended = ran(tmp_path, "-p", "x")
    assert ended.returncode == 2
    lines = [
        re.findall(r"settings\.toml:(\d+): ([a-z.]+):", row) for row in ended.stderr.splitlines()
    ]
    assert [found[0] for found in lines if found] == [
        ("4", "ui.theme"),
        ("5", "ui.loud"),
        ("2", "roles.main"),
    ]


def test_the_demo_leaves_its_changed_project_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    ended = ran(tmp_path, "--demo", "-p", "--json", "--mode", "trusted")
    last = json.loads(ended.stdout.splitlines()[-1])
    assert last["files_changed"]
    [stage] = folder.iterdir()
    assert [path.name for path in stage.iterdir()] == ["little-shop"]
    assert str(stage / "little-shop") in ended.stderr
    kept = {path.name for path in (tmp_path / "home").rglob("*") if path.is_file()}
    assert kept <= {"duckflow.log"}


def test_a_should_that_is_missing_shows_in_exit_status_words_and_the_last_record(
    tmp_path: Path,
) -> None:
    """Covers S1-28 for runs without a screen, where nobody can say that it is enough."""
    scores = {"r1": 1.0, "r2": 1.0, "r3": 1.0, "r4": 0.0}  # 0.82 of the whole
    short = judged(0.9, scores).model_copy(update={"repeat": True})
    musts = [claim(words) for words in ("the notes are written", "short", "clear")]
    replies = script(
        works(*musts, claim("there is a changelog", 2)),
        done("Done!").model_copy(update={"repeat": True}),
        satisfaction=short,
        missing=lacks("the changelog").model_copy(update={"repeat": True}),
        continuation=tuple(next_plan(f"way {n}") for n in range(3)),
    )
    with served(replies) as server:
        ended = ran(
            tmp_path, "--base-url", server.endpoint.base_url, "--model", "m", "--mode", "trusted",
            "--json", "-p", "write the notes",
        )  # fmt: skip
    last = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.returncode, last["kind"], last["outcome"]) == (1, "turn_finished", "partial")


def test_a_question_is_printed_with_its_options_and_has_its_own_exit_status(tmp_path: Path) -> None:
    """Asked again behind the word that nobody is there."""
    question = {"text": "Which of the two?", "options": ["the first", "the second"]}
    asks = decision("I found two.", next_step="pending_user", question=question)
    with served(script(asks, asks)) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert ended.returncode == 5
    assert ended.stdout == ("I found two.\nWhich of the two?\n  1  the first\n  2  the second\n")
    assert "Ended with a question for you" in ended.stderr


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_question_that_only_the_reply_asks_is_one_too(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    asks = decision("Which of the two files is it?", next_step="pending_user")
    with served(script(asks, asks)) as server:
        ended = run(tmp_path, server.endpoint.base_url, *more)
    assert ended.returncode == 5
    if not more:
        assert ended.stdout == "Which of the two files is it?\n"
        return
    last = json.loads(ended.stdout.splitlines()[-1])
    assert last["kind"] == "turn_finished"
    assert last["reason"]["code"] == "question"
    assert last["question"] == {"text": "Which of the two files is it?", "options": []}


def test_a_typed_number_answers_the_question_of_the_run_before(tmp_path: Path) -> None:
    options = ["the first", "the second"]
    asks = decision(
        "I found two.", next_step="pending_user", question={"text": "Which?", "options": options}
    )
    with served(script(asks, asks, done("The second then."))) as server:
        assert run(tmp_path, server.endpoint.base_url).returncode == 5
        url = ("--base-url", server.endpoint.base_url, "--model", "m")
        newest = sorted((tmp_path / "home").rglob("session_*"))[-1].name
        ended = ran(tmp_path, *url, "-p", "２", "--resume", newest)
        asked = server.endpoint.of("main")[-1].text
    assert ended.stdout == "The second then.\n"
    assert "the second" in asked
    assert "２" not in asked


def test_each_end_before_it_was_done_says_why_by_a_code_and_facts(tmp_path: Path) -> None:
    """For a script that reads the records."""
    write = action("file_ops.write_file", path="../x", content="x")
    there = claim("a.txt is there", kind="file_exists", value="a.txt")
    claims = done("So.", task_profile="FILE_OPERATION", requirements=[there])
    unmet = script(claims, *[done("So.")] * 4)
    for number, (replies, code, facts) in enumerate(
        (
            (script(decision("I write.", write), done()), "denied", "../x"),
            (
                script(
                    decision("I write.", write),
                    decision("May I?", next_step="pending_user"),
                ),
                "denied",
                "../x",
            ),
            (script(decision("Later.", next_step="defer")), "partial", ""),
            (unmet, "unmet", "r1 a.txt is there"),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with served(replies) as server:
            ended = run(folder, server.endpoint.base_url, "--json")
        reason = json.loads(ended.stdout.splitlines()[-1])["reason"]
        assert reason["code"] == code
        assert facts in " ".join(reason["params"].values())


def test_without_a_screen_the_report_after_the_last_attempt_and_its_options_are_printed(
    tmp_path: Path,
) -> None:
    """Covers S1-50."""
    replies = script(
        works(claim("the answer says why")),
        *[done("So.")] * 4,
        satisfaction=tuple(map(judged, (0.2, 0.3, 0.4))),
        missing=(lacks("the reason"),) * 3,
        continuation=tuple(next_plan(f"way {n}") for n in range(3)),
    )
    with served(replies) as server:
        ended = run(tmp_path, server.endpoint.base_url, "--mode", "trusted")
    assert ended.returncode == 1
    said = next(line for line in ended.stderr.splitlines() if "After 3 attempts" in line)
    assert "the score is 0.40. Missing: the reason. Nobody was there" in said
    for way in ("accepted as it is", "instructions", "another way", "the cause", "given up"):
        assert way in said


def test_a_call_read_from_text_is_denied_without_naming_a_flag(tmp_path: Path) -> None:
    call = '{"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}}'
    text = f"It ends with\n\n<tool_call>\n{call}\n</tool_call>"
    with served(script(Reply(text=text), done("It waits for you."))) as server:
        ended = run(tmp_path, server.endpoint.base_url, "--mode", "trusted")
    assert ended.returncode == 3
    assert "may be a quotation" in ended.stderr
    assert "--allow" not in ended.stderr
    assert not (tmp_path / "a.txt").exists()


def test_a_denial_goes_before_the_question_behind_it(tmp_path: Path) -> None:
    """What to allow is the news for a script; the question is printed all the same."""
    write = action("file_ops.write_file", path="../x", content="x")
    asks = decision("May I write ../x?", next_step="pending_user")
    with served(script(decision("I write.", write), asks)) as server:
        ended = run(tmp_path, server.endpoint.base_url)
    assert (ended.returncode, ended.stdout) == (3, "May I write ../x?\n")
