"""What the demo's model says in English and in Japanese, and when."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest

from duckflow_tui.glance import LANGUAGES
from duckflow_tui.places import asset_folder
from duckflow_tui.prompting.templates import load_notices
from duckflow_tui.scripted.project import held_by
from duckflow_tui.scripted.scene import Result, from_the_app, scene_of
from duckflow_tui.scripted.tax import rate_of
from duckflow_tui.scripted.wording import texts
from duckflow_tui.state.conversation import BESIDE_THE_WORK
from duckflow_tui.state.decision import StateDelta
from duckflow_tui.state.memory import WorkingMemory, apply_delta


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Every text by its dotted key."""
    found: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            found |= flat(cast("dict[str, Any]", value), f"{prefix}{name}.")
        elif isinstance(value, list):
            items = enumerate(cast("list[str]", value))
            found |= flat({str(number): item for number, item in items}, f"{prefix}{name}.")
        else:
            found[prefix + name] = str(value)
    return found


@pytest.mark.parametrize("part", ["", "plan", "aside", "answers", "judge", "savings", "tax"])
def test_both_languages_say_the_same_things(part: str) -> None:
    english, japanese = flat(texts(part, "en")), flat(texts(part, "ja"))
    assert english.keys() == japanese.keys()
    for key, text in english.items():
        fields = sorted(re.findall(r"\{\w+\}", text))
        assert fields == sorted(re.findall(r"\{\w+\}", japanese[key])), key
        code = re.findall(r"```.*?```", text, re.S)
        assert code == re.findall(r"```.*?```", japanese[key], re.S), key


@pytest.mark.parametrize("language", ["en", "ja"])
def test_nothing_of_it_is_cut_to_fit_the_working_memory(language: str) -> None:
    words = texts("", language)
    delta = StateDelta(
        goal=words["goal"],
        why_now=words["why_now"],
        plan_brief=tuple(words["plan"]),
        open_questions=(words["ask"]["question"],),
        decision=words["decided"],
    )
    assert apply_delta(WorkingMemory(), delta).cuts == ()


def request(*messages: dict[str, Any]) -> dict[str, Any]:
    """A request as the program sends it, the tail last."""
    return {
        "messages": [
            {"role": "system", "content": "rules"},
            *messages,
            {"role": "user", "content": "the working memory"},
        ]
    }


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def beside_the_work(text: str) -> dict[str, Any]:
    return user(f"{BESIDE_THE_WORK}\n{text}")


def test_results_are_told_apart_from_what_the_user_says_in_json() -> None:
    scene = scene_of(
        request(
            user("fix it"),
            {"role": "assistant", "content": "{}"},
            user(
                "Results of your actions:\n\n1. file_ops.read_file [ok] [a.py: lines 1-3 of 3]\n"
                "one\n\n2 lines\n\n2. file_ops.edit_file [rejected] rejected by the user: no\n\nno"
            ),
            user("[Written by the app.] Changed by someone else since you read them: a.py."),
        )
    )
    assert scene.said == "fix it"
    assert scene.changed_outside
    assert scene.latest == [
        Result("file_ops.read_file", "ok", "[a.py: lines 1-3 of 3]\none\n\n2 lines"),
        Result("file_ops.edit_file", "rejected", "rejected by the user: no\n\nno"),
    ]


def test_native_results_are_named_by_their_calls() -> None:
    call = {"id": "c1", "function": {"name": "file_ops__read_file", "arguments": "{}"}}
    decide = {"id": "d", "function": {"name": "decide", "arguments": "{}"}}
    said = {"role": "assistant", "content": "", "tool_calls": [decide, call]}
    scene = scene_of(
        request(
            user("old request"),
            said,
            {"role": "tool", "tool_call_id": "d", "content": "noted"},
            {"role": "tool", "tool_call_id": "c1", "content": "[ok] old"},
            user("new request"),
            said,
            {"role": "tool", "tool_call_id": "d", "content": "noted"},
            {"role": "tool", "tool_call_id": "c1", "content": "[error] gone"},
        )
    )
    assert scene.said == "new request"
    assert scene.results == scene.latest == [Result("file_ops.read_file", "error", "gone")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_app_says_to_the_model_is_never_taken_for_the_users_words(language: str) -> None:
    said = load_notices(asset_folder("prompts"), language)
    behind = {"resume.another_folder"}  # only ever said behind another one
    told = {n: text.render(dict.fromkeys(text.fields, "x")) for n, text in said.items()}
    assert [n for n, words in told.items() if not from_the_app(words)] == [*behind]


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("    rate = sum(discounts)\n    return price * (1 - rate)\n", "sum"),
        ("    for rate in discounts:\n        price *= 1 - rate\n    return price\n", "loop"),
        ("    for rate in discounts:\n        price *= 1 - rate\n    return 0\n", "other"),
        ("from math import prod\n    rate = sum(discounts)\n    return price * (1 - rate)\n",
         "line_missing"),
        ("def total(price, discounts):\n    return price\n", "other"),
    ],
)  # fmt: skip
def test_a_file_is_known_by_what_it_computes(text: str, held: str) -> None:
    assert held_by(text) == held


@pytest.mark.parametrize("language", ["en", "ja"])
def test_what_was_said_beside_the_work_is_not_what_the_turn_is_about(language: str) -> None:
    def reply(rationale: str, next_step: str, *operations: str) -> dict[str, Any]:
        calls = [{"operation": name, "args": dict[str, str]()} for name in operations]
        fields = {"rationale": rationale, "next_step": next_step, "actions": calls}
        return {"role": "assistant", "content": json.dumps(fields)}

    beside = texts("aside", language)["rationale"]
    answered = (
        user("fix it"),
        reply("read first", "continue"),
        beside_the_work("how far are you?"),
        user("Results of your actions:\n\n1. file_ops.read_file [ok] [a.py: lines 1-3 of 3]"),
        reply("propose", "continue"),
        user("Results of your actions:\n\n1. file_ops.edit_file [ok] changed a.py"),
        reply(beside, "continue", "plan_tool.get"),
        user(
            "Results of your actions:\n\n1. plan_tool.get [ok] the plan\n\n"
            "2. task_loop.run [ok] 4 of 4"
        ),
        reply(beside, "done"),
    )
    scene = scene_of(request(*answered))
    assert scene.said == "fix it"
    came = ["file_ops.edit_file", "task_loop.run"]  # the second behind the words beside it
    assert [result.operation for result in scene.latest] == came
    about = re.compile("the sum")
    now, keep = beside_the_work("and now?"), beside_the_work("keep the sum")
    assert scene_of(request(*answered, now), about).said == "fix it"
    assert scene_of(request(*answered, keep), about).said == "keep the sum"
    ended = (*answered, reply("all done", "done"), user("thanks"))
    assert scene_of(request(*ended), about).said == "thanks"


def test_what_the_user_says_to_the_work_itself_is_heard_and_the_request_kept() -> None:
    """On a card, or while it is paused: the next decision may rest on both."""
    searched = (
        user("find the rate"),
        {"role": "assistant", "content": json.dumps({"next_step": "continue"})},
        user("Results of your actions:\n\n1. file_ops.search_text [ok] no matches"),
    )
    scene = scene_of(request(*searched, user("it is 8 %")), re.compile("the sum"))
    assert (scene.request, scene.said, scene.results) == ("find the rate", "it is 8 %", [])
    assert [result.text for result in scene.turn] == ["no matches"]
    note = user(
        "[Written by the app at a key of the user.]\n"
        "The user wants a completely different approach. …"
    )
    scene = scene_of(request(*searched, note))
    assert (scene.said, scene.other_way) == ("find the rate", True)


@pytest.mark.parametrize(
    ("said", "rate"),
    [
        ("8 %", "0.08"),
        ("It is 7,5%.", "0.075"),
        ("10 percent", "0.1"),
        ("８％です", "0.08"),
        ("0.08, please", "0.08"),
        ("look harder", ""),
        ("version 1.0.8", ""),
    ],
)
def test_a_rate_is_read_as_people_write_it(said: str, rate: str) -> None:
    assert rate_of(said) == rate
