"""Models of another temper than the one a format is written for: each gets its edit done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from support.pace_talk import LONG, consultations, consulted, files, reads
from support.plan_talk import PROPOSE, answer, plan_reply
from support.reviews import claim, found, judged, lacks, next_plan
from support.session import action, decision, done, script, session

from duckflow_tui.scripted.replies import Reply, ScriptedCall
from duckflow_tui.state.conversation import NoticeMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.goal import ReviewMessage
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import reason_words, verdict_words
from duckflow_tui.work.situations import LOW_FOCUS

OK = {"ok": True, "reason": "it is what was asked for"}
JUDGED = {
    "rationale": "next",
    "goal_consistency": OK,
    "constraint_check": OK,
    "step": "EXECUTION",
    "next_step": "continue",
    "prompt_pattern": "base_main",
}
EDIT: dict[str, Any] = {
    "reasoning": "asked for",
    "path": "a.py",
    "edits": [{"old": "x = 1", "new": "x = 2"}],
}


def calls(*made: tuple[str, dict[str, Any]], text: str = "") -> Reply:
    """Native calls as they go over the wire."""
    return Reply(
        text=text, tool_calls=tuple(ScriptedCall(name=name, arguments=args) for name, args in made)
    )


def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder / "a.py"


READ = ("file_ops__read_file", {"reasoning": "needed", "path": "a.py"})
CHANGE = ("file_ops__edit_file", EDIT)
JUDGE = ("decide", JUDGED)


async def test_a_model_that_makes_one_call_in_a_message_edits_the_file(tmp_path: Path) -> None:
    """Its judgement, alone in a message, holds for the call that comes next. Covers S4-58."""
    file = project(tmp_path)
    replies = script(
        calls(READ), calls(JUDGE, text="I change x."), calls(CHANGE), Reply(text="x is 2 now.")
    )
    async with session(tmp_path, replies, protocol="tools", mode="trusted") as s:
        end = await s.turn("set x to 2")
        assert (end.outcome, file.read_text()) == ("done", "x = 2\n")
        assert len(s.server.of("main")) == 4  # nothing was asked for twice
        told = [m.for_model for m in s.state.messages if isinstance(m, NoticeMessage)]
        assert not [
            words for words in told if "nothing happened" in words or "Reply again" in words
        ]


async def test_a_model_that_never_judges_edits_the_file_without_being_asked(
    tmp_path: Path,
) -> None:
    """Its checks count as not stated. Covers S4-58."""
    file = project(tmp_path)
    replies = script(calls(CHANGE, text="I change x."), Reply(text="x is 2 now."))
    async with session(tmp_path, replies, protocol="tools", mode="trusted") as s:
        end = await s.turn("set x to 2")
        assert (end.outcome, file.read_text()) == ("done", "x = 2\n")
        assert len(s.server.of("main")) == 2


async def test_before_a_high_risk_the_model_is_asked_once_in_a_turn_for_its_own_checks(
    tmp_path: Path,
) -> None:
    project(tmp_path)
    risky = ("shell__run", {"command": "cat .env"})
    replies = script(calls(risky), calls(risky), calls(risky), Reply(text="It cannot run here."))
    async with session(tmp_path, replies, protocol="tools", mode="trusted", headless=True) as s:
        await s.turn("set it up")
        first, asked, *others = s.server.of("main")
        words = "goal_consistency and constraint_check"
        assert words in asked.new_text
        assert "a call of it has a high risk" in asked.new_text
        assert not any(f"State {words}" in r.new_text for r in (first, *others))
        assert [m.operation for m in s.results()] == ["shell.run", "shell.run"]


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_model_that_never_judges_carries_out_a_whole_plan(
    tmp_path: Path, protocol: Any
) -> None:
    project(tmp_path)

    def writes(name: str) -> Reply:
        args = {"path": name, "content": "x\n"}
        if protocol == "tools":
            return calls(("file_ops__write_file", args))
        made = {"operation": "file_ops.write_file", "args": args}
        return Reply(text=json.dumps({"reply": "", "actions": [made]}))

    end = done("It is there.")
    works = (writes("b.py"), end, writes("c.py"), end)
    replies = script(
        PROPOSE,
        done("I begin."),
        done("Both are there."),
        plan=plan_reply("first", "second"),
        task=works,
    )
    async with session(tmp_path, replies, protocol=protocol, mode="trusted", headless=True) as s:
        await s.turn("write b.py and c.py")
        assert sorted(p.name for p in s.workspace.glob("*.py")) == ["a.py", "b.py", "c.py"]
        assert len(s.server.of("task")) == len(works)


async def test_a_model_that_only_judges_is_caught(tmp_path: Path) -> None:
    """One message of judgement alone is a way to work; the next ones are idle. Covers S3-21."""
    project(tmp_path)
    replies = script(*[calls(JUDGE, text="Let me think.") for _ in range(5)])
    async with session(tmp_path, replies, protocol="tools", mode="trusted") as s:
        await s.engine.send("set x to 2")
        _, situation = await consulted(s)
        assert situation.cause.code == "no_action"
        assert len(s.server.of("main")) == 4
        s.engine.stop()
        await s.ended()


async def test_arguments_that_are_no_json_go_back_as_text(tmp_path: Path) -> None:
    """Servers refuse calls in the history whose arguments they cannot parse."""
    file = project(tmp_path)
    broken = Reply(
        tool_calls=(ScriptedCall(name="file_ops__edit_file", arguments='{"path": "a.py", "edi'),)
    )
    replies = script(broken, calls(JUDGE, CHANGE), Reply(text="x is 2 now."))
    async with session(tmp_path, replies, protocol="tools", mode="trusted") as s:
        await s.turn("set x to 2")
        assert file.read_text() == "x = 2\n"
        messages = s.server.of("main")[1].json["messages"]
        assert not [m for m in messages if m.get("tool_calls")]
        assert [m for m in messages if m["role"] == "assistant" and '"edi' in m["content"]]


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_model_that_writes_its_checks_is_never_asked_for_them(
    tmp_path: Path, protocol: Any
) -> None:
    file = project(tmp_path)
    change = action("file_ops.edit_file", path="a.py", edits=EDIT["edits"])
    replies = script(decision("I change x.", change), done("x is 2 now."))
    async with session(tmp_path, replies, protocol=protocol, mode="trusted") as s:
        end = await s.turn("set x to 2")
        assert (end.outcome, file.read_text()) == ("done", "x = 2\n")
        assert len(s.server.of("main")) == 2


async def test_call_ids_that_begin_anew_in_each_reply_are_sent_back_once_each(
    tmp_path: Path,
) -> None:
    """Some local servers call the first call of every reply ``call_0``."""
    file = project(tmp_path)

    def numbered(name: str, args: dict[str, Any]) -> ScriptedCall:
        return ScriptedCall(name=name, arguments=args, id="call_0")

    look = Reply(tool_calls=(numbered(*READ),))
    change = Reply(
        tool_calls=(ScriptedCall(name="decide", arguments=JUDGED, id="call_1"), numbered(*CHANGE))
    )
    replies = script(look, look, change, Reply(text="x is 2 now."))
    async with session(tmp_path, replies, protocol="tools", mode="trusted") as s:
        await s.turn("set x to 2")
        assert file.read_text() == "x = 2\n"
        messages = s.server.of("main")[-1].json["messages"]
        asked = [call["id"] for m in messages for call in m.get("tool_calls") or ()]
        answered = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
        assert asked == answered
        assert len(set(asked)) == len(asked) >= 3


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_what_reads_has_run_and_all_faults_of_a_reply_are_told_at_once(
    tmp_path: Path, protocol: Literal["tools", "json"]
) -> None:
    """One call is right and reads; one is unknown, one lacks an argument. Covers S4-58, R16."""
    file = project(tmp_path)
    look = action("file_ops.read_file", path="a.py")
    edits = action("file_ops.edit_file", path="a.py", edits=EDIT["edits"])
    wrong = [look, action("file_ops.explode"), action("file_ops.edit_file", path="a.py"), edits]
    replies = script(
        Reply(decision={"reply": "I do all of it.", "actions": wrong}),
        decision("Now really.", edits),
        done("x is 2 now."),
    )
    async with session(tmp_path, replies, protocol=protocol, mode="trusted") as s:
        end = await s.turn("set x to 2")
        assert (end.outcome, file.read_text()) == ("done", "x = 2\n")
        again = s.server.of("main")[1]
        assert "x = 1" in again.new_text
        for fault in ("explode”", "edits: is required"):
            assert fault in again.new_text
        assert again.new_text.count("Reply again") == 1
        assert "x = 2" in json.dumps(again.json)  # its own words are there to be mended
        assert [m.operation for m in s.results()] == ["file_ops.read_file", "file_ops.edit_file"]
        assert "turn.repair_rest" in s.notices()


@pytest.mark.parametrize("protocol", ["tools", "json"])
async def test_a_model_whose_replies_are_wrong_in_part_each_time_is_stopped(
    tmp_path: Path, protocol: Literal["tools", "json"]
) -> None:
    folder = project(tmp_path).parent
    wrong: list[Reply] = []
    for name in "bcdef":
        (folder / f"{name}.py").write_text(f"{name} = 1\n")
        look = action("file_ops.read_file", path=f"{name}.py")
        wrong.append(decision("So.", look, action("file_ops.explode")))
    replies = script(*wrong)
    async with session(tmp_path, replies, protocol=protocol) as s:
        end = await s.turn("set x to 2")
        assert (end.outcome, len(s.server.of("main"))) == ("failed", 4)
        assert s.notices()[-1] == "turn.unreadable"


async def test_a_reply_with_every_small_fault_that_json_can_have_is_carried_out(
    tmp_path: Path,
) -> None:
    """Prose around it, a second fence, commas, line breaks, a regular expression, Python's words,
    a short name, numbers as text, no reasons: nothing of it is asked for again.
    """
    project(tmp_path)
    reply = r"""Sure! I will use {name} as asked:
```json
{
  "rationale": "set x", "reply": "I set x
with \d in it.",
  "goal_consistency": "yes: asked", "constraint_check": {"ok": True,},
  "actions": [
    {"operation": "read_file", "args": {"path": "a.py", "start_line": "1"}},
    {"name": "edit_file", "arguments": {"path": "a.py", "edits":
      {"old": "x = 1", "new": "x = re.match('\d+', y)
z = 2", "all": "False"}}, "alternatives": None,},
  ],
}
```
The file then begins with:
```json
{"x": 2}
```
That is all."""
    last = Reply(text='{"reply": "x is 2 now.", "next_step": "done",} I hope that helps!')
    async with session(tmp_path, script(Reply(text=reply), last), mode="trusted") as s:
        end = await s.turn("set x")
        assert (end.outcome, len(s.server.of("main"))) == ("done", 2)
        changed = (tmp_path / "work" / "a.py").read_text()
        assert changed == "x = re.match('\\d+', y)\nz = 2\n"
        assert end.reply == "x is 2 now."


def edit_to(old: str, new: str) -> dict[str, Any]:
    return {"path": "a.py", "edits": [{"old": old, "new": new}]}


#: What a model says in a protocol, with these arguments of an edit or without a call.
Temper = Callable[[str, str, dict[str, Any] | None], list[Reply]]


def one_call(protocol: str, reply: str, args: dict[str, Any] | None) -> list[Reply]:
    """One call in each message, its judgement too."""
    if protocol == "json":
        return [decision(reply, action("file_ops.edit_file", **args)) if args else done(reply)]
    if args is None:
        return [calls(("decide", {**JUDGED, "next_step": "done"}), text=reply)]
    return [calls(JUDGE), calls(("file_ops__edit_file", {"reasoning": "asked", **args}))]


def prose(protocol: str, reply: str, args: dict[str, Any] | None) -> list[Reply]:
    """Words before and behind everything."""
    said = f"Of course, let me help you with that! {reply}"
    if protocol == "tools":
        call = ("file_ops__edit_file", {"reasoning": "asked", **(args or {})})
        return [calls(JUDGE, call, text=said) if args else Reply(text=said)]
    made: dict[str, Any] = {**JUDGED, "reply": reply, "next_step": "done"}
    if args:
        act = {"operation": "file_ops.edit_file", "args": args, "reasoning": "asked"}
        made |= {"next_step": "continue", "actions": [act]}
    return [Reply(text=f"{said}\n\n```json\n{json.dumps(made)}\n```\n\nI hope {{that}} helps!")]


def forgets(protocol: str, reply: str, args: dict[str, Any] | None) -> list[Reply]:
    """Nothing but what it says and what it calls."""
    if protocol == "tools":
        return [calls(("file_ops__edit_file", args)) if args else Reply(text=reply)]
    made = {"actions": [{"operation": "file_ops.edit_file", "args": args}]} if args else {}
    return [Reply(text=json.dumps({"reply": reply, **made}))]


def exact(protocol: str, reply: str, args: dict[str, Any] | None) -> list[Reply]:
    return [decision(reply, action("file_ops.edit_file", **args)) if args else done(reply)]


@pytest.mark.parametrize("protocol", ["tools", "json"])
@pytest.mark.parametrize("temper", [one_call, prose, forgets, exact])
async def test_a_model_of_any_temper_edits_the_file_and_is_judged_by_what_it_did(
    tmp_path: Path, protocol: Any, temper: Temper
) -> None:
    """The first work is not what was asked for, and is sent back; the second is. Covers S4-58."""
    file = project(tmp_path)
    wrong, right = edit_to("x = 1", "x = 3"), edit_to("x = 3", "x = 2")
    first = temper(protocol, "I change x.", wrong)
    says = temper(protocol, "x is 2 now.", None)
    scripted = script(
        *first,
        *says,
        *temper(protocol, "Now really.", right),
        *says,
        satisfaction=(judged(0.0), judged(0.9)),
        missing=lacks("x is not 2"),
        continuation=next_plan("set x to 2"),
    )
    async with session(tmp_path, scripted, protocol=protocol, mode="trusted") as s:
        end = await s.turn("set x to 2")
        assert (end.outcome, end.satisfaction, file.read_text()) == ("done", 0.9, "x = 2\n")
        assert end.reply.endswith("x is 2 now.")
        before, after = s.server.of("satisfaction")
        assert ("x = 3" in before.text) is bool(first)
        assert "x = 2" in after.text
        asked = s.server.of("main")
        assert len(asked) == len(first) + 2 * len(says) + len(temper(protocol, "", right))
        assert "the reason" in asked[len(first) + len(says)].text
        assert [m.result.outcome for m in s.results()] == ["ok"] * (1 + bool(first))


IN_VAIN = {
    "refused": EDIT["edits"],
    "failed": [{"old": "not there", "new": "x = 2"}],
    "taken back": EDIT["edits"],
}


@pytest.mark.parametrize(
    ("how", "evidence", "outcome"),
    [
        ("refused", [], "partial"),
        ("refused", ["the file"], "partial"),
        ("refused", ["U1"], "partial"),
        ("refused", ["P1"], "done"),
        ("failed", [], "partial"),
        ("failed", ["R1"], "done"),
        ("failed", ["S1"], "done"),
        ("taken back", [], "partial"),
        ("carried out", [], "done"),
    ],
)
async def test_a_score_alone_does_not_make_done_what_was_never_carried_out(
    tmp_path: Path, how: str, evidence: list[str], outcome: str
) -> None:
    """The only change was refused, failed or was taken back. A lenient judge who names no fact
    ends the request as not met, without a further attempt or a question; one who names a fact
    counts.
    """
    project(tmp_path)
    first = action("file_ops.edit_file", path="a.py", edits=IN_VAIN.get(how, EDIT["edits"]))
    read = action("file_ops.read_file", path="a.py")
    back = action("file_ops.edit_file", path="a.py", edits=[{"old": "x = 2", "new": "x = 1"}])
    more = (decision("Back.", back),) if how == "taken back" else ()
    replies = script(
        decision("I look.", read, requirements=[claim("x is 2", 1)]),
        decision("I fix it.", first),
        *more,
        *[done("Fixed.")] * 3,
        satisfaction=(judged(0.95, evidence={"r1": evidence}),) * 4,
        requirements=(found(),) * 3,
    )
    mode = "standard" if how == "refused" else "trusted"
    async with session(tmp_path, replies, mode=mode) as s:
        await s.engine.send("set x to 2")
        if how == "refused":
            await s.answer(GateChoice.REJECT, reason="not now")
        end = await s.ended()
        row = next(m.review for m in s.state.messages if isinstance(m, ReviewMessage))
        said = verdict_words(row, Catalogue("en"))
        assert (end.outcome, s.state.cards) == (outcome, ())
        assert said.startswith("Done: 1 of 1" if outcome == "done" else "Not met: 0 of 1 · x is 2")
        assert len(s.server.of("satisfaction")) == 1 + (not evidence)


@pytest.mark.parametrize(
    "check",
    [
        ("command", "true"),
        ("command", "false || echo bad"),
        ("command", "sed -i s/x/y/ a.py"),
        ("command", "touch made && test -f made"),
        ("command", "echo y > made && grep -q y made"),
        ("command", "sh check.sh"),  # which writes what it then finds
        ("command", "python3 check.py"),
        ("file_exists", "a.py"),
        ("file_contains", "a.py: x ="),
        ("file_contains", "b.py: y"),
    ],
)
async def test_a_check_that_held_before_the_work_shows_nothing_of_it(
    tmp_path: Path, check: tuple[str, str]
) -> None:
    """A model that changes something and picks a check which cannot fail, or which held before the
    request, is judged by what it did. Covers S1-1.
    """
    folder = project(tmp_path).parent
    (folder / "b.py").write_text("y = 1\n")
    (folder / "check.sh").write_text("echo fixed > made.txt\ngrep -q fixed made.txt\n")
    (folder / "check.py").write_text("open('b.py', 'a').write('# fixed')\n")
    change = action("file_ops.edit_file", path="a.py", edits=EDIT["edits"])
    fixed = claim("the three bugs are fixed", 1, *check)
    replies = script(
        decision("I fix it.", change, requirements=[fixed]),
        *[done("Fixed.")] * 3,
        satisfaction=(judged(0.1),) * 3,
        missing=(lacks("two of three bugs are there"),) * 3,
        continuation=tuple(next_plan(f"way {n}") for n in range(3)),
    )
    allow = ("true", "false", "echo bad", "sed -i s/x/y/ a.py", "touch made", "test -f made")
    allow += ("grep -q y made", "sh check.sh", "python3 check.py")
    async with session(tmp_path, replies, mode="trusted", headless=True, allow=allow) as s:
        end = await s.turn("fix the three bugs in a.py")
        assert (end.outcome, end.satisfaction) == ("partial", 0.1)
        assert "the reason" in s.server.of("main")[2].text


async def test_a_check_that_the_work_made_true_decides_its_requirement(tmp_path: Path) -> None:
    """Also where the text is one more in a file that was there before, or a command made it."""
    project(tmp_path)
    change = action("file_ops.edit_file", path="a.py", edits=EDIT["edits"])
    touch = action("shell.run", command="touch made.txt")
    wanted = [
        claim("x is 2", 1, "file_contains", "a.py: x = 2"),
        claim("the file is there", 1, "file_exists", "made.txt"),
        claim("it holds", 1, "command", "true && grep -q 2 a.py"),
    ]
    replies = script(
        decision("I do.", change, touch, requirements=wanted),
        done("Done."),
        satisfaction=judged(0.8, {"r1": 0.8, "r2": 0.8, "r3": 0.8}),
    )
    allow = ("touch made.txt", "true", "grep -q 2 a.py")
    async with session(tmp_path, replies, mode="trusted", headless=True, allow=allow) as s:
        end = await s.turn("set x to 2 and make made.txt")
        assert (end.outcome, end.satisfaction) == ("done", 0.8)
        told = s.server.of("satisfaction")[0].text
        assert [f"check of {key}, met: " in told for key in ("r1", "r2", "r3")] == [True] * 3


@pytest.mark.parametrize(
    ("temper", "protocol"),
    [("sloppy", "tools"), ("exact", "json"), ("stubborn", "tools"), ("sloppy", "json")],
)
async def test_one_small_check_that_passes_does_not_stand_for_a_big_request(
    tmp_path: Path, temper: str, protocol: Literal["tools", "json"]
) -> None:
    """The model picks what it is judged by: one thing of three, with a check that its edit makes
    true. The judge is asked for the whole, against the user's own words. Covers S1-1.
    """
    file = project(tmp_path)
    change = action("file_ops.edit_file", path="a.py", edits=EDIT["edits"])
    more = action("file_ops.write_file", path="b.py", content="y = 1\n")
    small = claim("x is 2", 1, "file_contains", "a.py: x = 2")
    again = {
        "sloppy": (decision("The rest.", more), done("All three.")),
        "exact": (
            decision("The rest.", more, requirements=[claim("b.py", 1, "file_exists", "b.py")]),
            done("All three."),
        ),
        "stubborn": (done("It is all done."), done("It is all done.")),
    }[temper]
    low, high = judged(0.3, {"r1": 0.3}), judged(0.9, {"r1": 0.9, "r2": 0.9})
    replies = script(
        decision("I do.", change, requirements=[small]),
        done("Done."),
        *again,
        satisfaction=(low, *((low,) * 4 if temper == "stubborn" else (high,))),
        missing=(lacks("b.py and the tests"),) * 3,
        continuation=tuple(next_plan(f"way {n}") for n in range(3)),
    )
    async with session(tmp_path, replies, protocol=protocol, mode="trusted", headless=True) as s:
        end = await s.turn("set x to 2, write b.py with y, and say what changed")
        assert file.read_text() == "x = 2\n"
        assert end.outcome == ("partial" if temper == "stubborn" else "done")
        assert "P1 the reason" in s.server.of("main")[2].text


#: One that is an order by its words, one that its answer makes one, and one in Japanese.
WEAK_ORDERS = ["set x to 2", "x to 2, ok?", "xを2に変えてもらえますか？"]
CLAIMS = {"en": "Done, I have set it.", "ja": "はい、設定しました。"}
LOOK = action("file_ops.read_file", path="a.py")


@pytest.mark.parametrize("text", WEAK_ORDERS)
async def test_a_weak_order_that_was_carried_out_is_done(tmp_path: Path, text: str) -> None:
    """By one edit, or, where a look shows that it is so already, by none."""
    file = project(tmp_path)
    says = CLAIMS["en" if text.isascii() else "ja"]
    change = action("file_ops.edit_file", path="a.py", edits=EDIT["edits"])
    so = "a.py: x = 2 stands there already." if text.isascii() else "すでに x = 2 になっています。"
    replies = script(decision("", change), done(says), decision("", LOOK), done(so))
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        assert ((await s.turn(text)).outcome, file.read_text()) == ("done", "x = 2\n")
        end = await s.turn(text)
        assert (end.outcome, file.read_text()) == ("done", "x = 2\n")


@pytest.mark.parametrize(
    "said",
    [
        {"overall_score": "80%", "requirement_scores": {"r1": "80 %"}},
        {"overall_score": 80, "requirement_scores": {"R1": "8/10"}},
        {"overallScore": 0.8, "requirementScores": {"r1": 0.8}, "verdict": "Approved"},
        {"overallScore": "80%", "Requirement_Scores": {"R1": "8/10"}, "Verdict": "Approved"},
        {"Overall_Score": "0.8", "Requirement_Scores": {"r1": 0.8}, "grade": "Good"},
        {"overall_score": 0.8, "requirement_scores": {"r1": 0.8}, "missing_aspects": None},
    ],
)
async def test_a_judge_who_writes_its_scores_in_its_own_way_is_understood(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    file = project(tmp_path)
    change = action("file_ops.edit_file", path="a.py", edits=EDIT["edits"])
    judge = Reply(text=json.dumps({**said, "evidence": {"R1": "x = 2"}}))
    replies = script(decision("I do.", change), done("x is 2."), satisfaction=judge)
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        end = await s.turn("set x to 2 in a.py")
        assert (end.outcome, end.satisfaction, file.read_text()) == ("done", 0.8, "x = 2\n")
        assert len(s.server.of("satisfaction")) == 1


@pytest.mark.parametrize("score", [4, 1.2, 180, "about 0.9", -1, None])
async def test_a_score_that_may_mean_two_things_is_asked_for_again(
    tmp_path: Path, score: Any
) -> None:
    project(tmp_path)
    change = action("file_ops.edit_file", path="a.py", edits=EDIT["edits"])
    judge = Reply(data={"overall_score": 0.9, "requirement_scores": {"r1": score}})
    replies = script(decision("I do.", change), done("x is 2."), satisfaction=(judge, judged(0.9)))
    async with session(tmp_path, replies, mode="trusted", headless=True) as s:
        end = await s.turn("set x to 2 in a.py")
        assert (end.outcome, end.satisfaction) == ("done", 0.9)
        assert len(s.server.of("satisfaction")) == 2


@pytest.mark.parametrize(
    "text",
    ["tell me a joke about three bugs", "why does a test fail?", "なぜテストが動かないのですか"],
)
async def test_where_the_answer_is_what_was_asked_for_its_words_show_it(
    tmp_path: Path, text: str
) -> None:
    asked = [claim("it is told")]
    replies = script(done("Three bugs walk into a test.", requirements=asked))
    async with session(tmp_path, replies, headless=True) as s:
        end = await s.turn(text)
        assert (end.outcome, end.satisfaction) == ("done", 0.9)


THREE = "1. set x to 2 in a.py\n2. add tests/test_a.py\n3. note it in CHANGELOG.md"


TWICE = decision("I read it twice.", *[action("file_ops.read_file", path="f01.py")] * 2)


STUBBORN = tuple(reads(f"f0{n}.py") for n in (1, 2, 1, 2, 1))


@pytest.mark.parametrize(
    ("calls_made", "text"),
    [
        # exact: it looks once more before it answers
        ((reads("f01.py"), reads("f01.py")), "go on"),
        ((TWICE, Reply(text='{"rationale": '), TWICE), "look at f01.py"),
        (STUBBORN, "look at f01.py"),
        (STUBBORN, "go on"),
    ],
    ids=["exact", "sloppy", "stubborn, named", "stubborn, unnamed"],
)
async def test_what_was_stuck_before_does_not_make_the_next_message_lose_the_thread(
    tmp_path: Path, calls_made: tuple[Reply, ...], text: str
) -> None:
    """Only what is repeated on this message lowers its focus, and the card names it."""
    files(tmp_path / "work", 3)
    before = [reads("f00.py") for _ in range(10)]
    replies = script(*before, *calls_made, done("Read."))
    async with session(tmp_path, replies, environ=LONG) as s:
        await s.engine.send("look at f00.py")
        for choice in ("keep_going", "keep_going", "stop_work"):
            await consulted(s)
            await answer(s, choice)
            await s.until(lambda state: not state.cards)
        await s.ended()
        assert s.state.vitals.focus < LOW_FOCUS
        shown = len(consultations(s))
        await s.engine.send(text)
        if len(calls_made) < 5:
            assert (await s.ended(2)).outcome == "done"
            assert consultations(s)[shown:] == []
            return
        _, situation = await consulted(s)
        cause = situation.cause
        assert (cause.code, situation.loop) == ("focus_fell", 5)
        assert cause.params["what"] == "f01.py"
        assert not any("f00.py" in tried.text for tried in situation.tried)
        for lang in ("en", "ja"):
            said = reason_words("consult.cause", cause, Catalogue(lang))
            assert "f01.py" in said
        s.engine.stop()
        await s.ended()
