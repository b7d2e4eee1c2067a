"""Calls written as text: read in every form that models have, never taken for an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckflow_tui.llm.foreign_calls import bare_name
from duckflow_tui.llm.patches import read_patch
from duckflow_tui.llm.text_calls import TextCall, read_calls

TEXT = {"type": "string"}
READ, EDIT, WRITE = "file_ops.read_file", "file_ops.edit_file", "file_ops.write_file"
OWN: dict[str, dict[str, Any]] = {
    READ: {"path": TEXT, "start_line": {"type": "integer"}},
    EDIT: {"path": TEXT, "edits": {"type": "array"}},
    WRITE: {"path": TEXT, "content": TEXT},
    "file_ops.delete_file": {"path": TEXT},
    "decide": {"rationale": TEXT},
}
KNOWN = {
    **OWN,
    **{name.replace(".", "__"): fields for name, fields in OWN.items()},
    **{bare_name(name): fields for name, fields in OWN.items()},
}
NAME = "file_ops__read_file"
ARGS = {"path": "a.py", "start_line": 3}
BODY = json.dumps({"name": NAME, "arguments": ARGS})
XML = (
    f"<function={NAME}>\n<parameter=path>\na.py\n</parameter>\n"
    "<parameter=start_line>\n3\n</parameter>\n</function>"
)
INVOKE = (
    f'<invoke name="{NAME}">\n<parameter name="path">a.py</parameter>\n'
    '<parameter name="start_line">3</parameter>\n</invoke>'
)

FORMS = {
    "hermes": f"<tool_call>\n{BODY}\n</tool_call>",
    "hermes, not closed": f"<tool_call>\n{BODY}",
    "qwen coder": f"<tool_call>\n{XML}\n</tool_call>",
    "qwen coder, bare": XML,
    "invoke": f"<function_calls>\n{INVOKE}\n</function_calls>",
    "invoke with a prefix": INVOKE.replace("<", "<x:").replace("<x:/", "</x:"),
    "mistral, a list": f"[TOOL_CALLS] [{BODY}]",
    "mistral, by name": f"[TOOL_CALLS]{NAME}[ARGS]{json.dumps(ARGS)}",
    "mistral, name and object": f"[TOOL_CALLS]{NAME}{json.dumps(ARGS)}",
    "llama": f"<|python_tag|>{json.dumps({'name': NAME, 'parameters': ARGS})}<|eom_id|>",
    "llama, bare": json.dumps({"name": NAME, "parameters": ARGS}),
    "openai, bare": json.dumps(
        [{"type": "function", "function": {"name": NAME, "arguments": json.dumps(ARGS)}}]
    ),
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
    f"{NAME}\n```json\n{json.dumps(ARGS)}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions."
    f"{NAME}:0<|tool_call_argument_begin|>{json.dumps(ARGS)}<|tool_call_end|>"
    "<|tool_calls_section_end|>",
    "fenced": f"```json\n{BODY}\n```",
    "fenced, marked": f"```\n<tool_call>\n{BODY}\n</tool_call>\n```",
    "llama, its function": f"<function={NAME}>{json.dumps(ARGS)}</function>",
    "llama, its function without a sign": f"<function={NAME}{json.dumps(ARGS)}</function>",
    "glm": f"<tool_call>{NAME}\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n"
    "<arg_key>start_line</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
    "gpt-oss": f"<|channel|>commentary to=functions.{NAME} <|constrain|>json<|message|>"
    f"{json.dumps(ARGS)}<|call|>",
    "deepseek 3.2": f"<｜DSML｜function_calls>\n{INVOKE}\n</｜DSML｜function_calls>".replace(
        "</inv", "</｜DSML｜inv"
    )
    .replace("<inv", "<｜DSML｜inv")
    .replace("</par", "</｜DSML｜par")
    .replace("<par", "<｜DSML｜par"),
    "react": f"Action: {NAME}\nAction Input: {json.dumps(ARGS)}",
    "a list inside": json.dumps(
        {
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": NAME, "arguments": json.dumps(ARGS)},
                }
            ]
        }
    ),
    "arguments outside the function": json.dumps(
        {"type": "function", "function": {"name": NAME}, "parameters": ARGS}
    ),
    "our own name": json.dumps({"operation": READ, "args": ARGS}),
    "a prefix": json.dumps({"name": f"functions.{NAME}", "arguments": ARGS}),
}


@pytest.mark.parametrize("before", ["", "I look at it first."])
@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_read_in_the_form_the_model_has(form: str, before: str) -> None:
    found = read_calls(f"{before}\n\n{FORMS[form]}", KNOWN)
    assert [(bare_name(call.name), call.arguments) for call in found.calls] == [
        (bare_name(READ), ARGS)
    ]
    assert (found.rest, found.unread) == (before, False)


@pytest.mark.parametrize("form", ["hermes", "qwen coder", "invoke", "deepseek", "kimi", "fenced"])
def test_several_calls_come_in_their_order(form: str) -> None:
    second = FORMS[form].replace("a.py", "b.py")
    found = read_calls(f"{FORMS[form]}\n{second}", KNOWN)
    assert [call.arguments["path"] for call in found.calls] == ["a.py", "b.py"]
    assert not found.unread


@pytest.mark.parametrize(
    "text",
    [
        f"<|tool_call|>[{BODY}]<|/tool_call|>",
        f"<TOOLCALL>[{BODY}]</TOOLCALL>",
        f"<|START_ACTION|>[{BODY}]<|END_ACTION|>",
        f"<function_call>\n{BODY}\n</function_call>",
        f'<|tool_call_start|>[{NAME}(path="a.py", start_line=3)]<|tool_call_end|>',
        f"[TOOL_CALLS]{NAME}[CALL_ID]abc123def[ARGS]{json.dumps(ARGS)}",
        json.dumps({"action": NAME, "action_input": ARGS}),
        f"{FORMS['react']}\nObservation: x = 1\nFinal Answer: x is 1.",
        f"{FORMS['hermes']}\n<tool_response>\nx = 1\n</tool_response>\nx is 1.",
    ],
)
def test_marks_that_speak_of_calls_are_marks_and_made_up_results_are_dropped(text: str) -> None:
    found = read_calls(f"I look at it.\n\n{text}", KNOWN)
    assert [call.arguments for call in found.calls] == [ARGS]
    assert (found.rest, found.unread) == ("I look at it.", False)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_use>\n<name>read_file</name>\n</tool_use>",
        "<start_function_call>call:read_file{path:<escape>a.py<escape>}<end_function_call>",
        f'[{NAME}(path="a.py"), frobnicate(command="x")]',
    ],
)
def test_a_call_of_unknown_form_is_no_answer(text: str) -> None:
    found = read_calls(text, KNOWN)
    assert (found.calls, found.unread) == ((), True)


def test_texts_between_marks_stay_as_they_are() -> None:
    content = "# Title\n\n```python\nprint('<b>')\n```\n\n{\"a\": 1}\n"
    text = (
        f"<function={WRITE}>\n<parameter=path>\nR.md\n</parameter>\n"
        f"<parameter=content>\n{content}\n</parameter>\n</function>"
    )
    (call,) = read_calls(text, KNOWN).calls
    assert call == TextCall(WRITE, {"path": "R.md", "content": content})


def test_a_patch_is_an_edit_of_each_file() -> None:
    text = (
        "Here is the change.\n*** Begin Patch\n*** Update File: a.py\n@@ def f():\n x = 1\n-y = 2\n"
        "+y = 3\n@@\n-z = 1\n+z = 2\n*** Add File: b.py\n+one\n+two\n*** Delete File: c.py\n"
        "*** End Patch\n"
    )
    found = read_calls(text, KNOWN)
    assert found.calls == (
        TextCall(EDIT, {"path": "a.py", "edits": [
            {"old": "x = 1\ny = 2", "new": "x = 1\ny = 3"}, {"old": "z = 1", "new": "z = 2"}]}),
        TextCall(WRITE, {"path": "b.py", "content": "one\ntwo\n"}),
        TextCall("file_ops.delete_file", {"path": "c.py"}),
    )  # fmt: skip
    assert (found.rest, found.unread) == ("Here is the change.", False)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "rm_rf", "arguments": {}}\n</tool_call>',
        "<function=rm_rf>\n<parameter=path>a</parameter>\n</function>",
        "<tool_call>read a.py</tool_call>",
        f'<tool_call>{{"name": "{NAME}", "arguments": {{"path": </tool_call>',
        "*** Begin Patch\n*** Update File: a.py\n+only new\n*** End Patch",
        "*** Begin Patch\n*** Update File: a.py\n-x\n+y\n",
        f'I read it.\n[TOOL_CALLS] [{{"name": "{NAME}"}}]',
    ],
)
def test_what_looks_like_a_call_and_cannot_be_read_is_no_answer(text: str) -> None:
    found = read_calls(text, KNOWN)
    assert (found.calls, found.unread) == ((), True)


def test_a_new_file_of_a_patch_keeps_its_blank_lines() -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n\n+y\n\n*** End Patch\n"
    assert [change.arguments["content"] for change in read_patch(patch)] == ["x\n\ny\n"]


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n", [(EDIT, "a.py")]),
        ("--- /dev/null\n+++ b/b.py\n@@ -0,0 +1 @@\n+y\n", [(WRITE, "b.py")]),
        ("--- a/c.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-y\n", [("file_ops.delete_file", "c.py")]),
        ("a.py\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE", [(EDIT, "a.py")]),
        ("**b/c.py**\n```\n<<<<<<< SEARCH\n=======\ny\n>>>>>>> REPLACE\n```", [(WRITE, "b/c.py")]),
        # Where it belongs is not said, or it is cut off.
        ("@@\n+y\n", []),
        ("So:\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE", []),
        ("a.py\n<<<<<<< SEARCH\nx\n=======\ny\n", []),
        ("*** Begin Patch\n*** End Patch", []),
        ("*** Begin Patch\n*** Update File: a.py\n+y\n*** End Patch", []),
        ("x is 1.", []),
    ],
)
def test_a_patch_is_read_in_each_of_its_forms_or_not_at_all(
    text: str, changes: list[tuple[str, str]]
) -> None:
    assert [(change.name, change.arguments["path"]) for change in read_patch(text)] == changes


@pytest.mark.parametrize(
    "text",
    [
        "x is 1.",
        "Models write calls so:\n```xml\n<tool_call>\n{...}\n</tool_call>\n```\nand so on.",
        'The settings:\n```json\n{"name": "shop", "arguments": []}\n```',
        '{"name": "shop", "parameters": {}}',
        "A list: [1, 2, 3] and a < b.",
        "Use `*** Begin Patch` for that.",
        "file_ops.read_file(path) reads a file.",
        "```python\nread_file('a.py')\n```\nis such a call.",
        "<file_ops__read_file> is its tag.",
        "The block begins with\n<<<<<<< SEARCH\nand more.",
        "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> main",
    ],
)
def test_an_answer_stays_one(text: str) -> None:
    assert read_calls(text, KNOWN) == ((), text, False)


def hidden(call: str) -> int:
    """Characters of a call by which nobody can tell it yet."""
    for first, more in (("Action Input:", 0), ("```json\n", 0), ("```\n", 3)):
        if first in call[:60] and not call.startswith("<"):
            return call.find(first) + len(first) + more
    return 3


#: What may stand before a call.
BEFORE = ("", "I look at it first.\n\n", "1. See a.py\n2. Change it\n\n```python\nx = 1\n```\n")


@pytest.mark.parametrize("before", BEFORE, ids=["alone", "behind prose", "behind a fence"])
@pytest.mark.parametrize("form", FORMS)
def test_no_cut_of_a_call_is_an_answer(form: str, before: str) -> None:
    """Cut at every place, a call is the whole call, or is known as one that cannot be read; only of
    a mark that has not shown itself yet nothing can be said.
    """
    whole = FORMS[form]
    for end in range(len(whole) + 1):
        found = read_calls(before + whole[:end], KNOWN)
        if found.calls:
            assert [call.arguments for call in found.calls] == [ARGS], whole[:end]
        else:
            assert found.unread or end <= hidden(whole), whole[:end]


PROSE = st.text(st.characters(codec="utf-8", exclude_characters="<[{`*｜\\"), max_size=40)


@settings(derandomize=True)  # the same cases in each run
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(sorted(FORMS)), st.sampled_from(["a.py", "b c.py", "d/é.py"])),
        min_size=1, max_size=4,
    ),
    before=PROSE,
    cut=st.integers(0, 40),
    slip=st.sampled_from(["", "the name", "the end"]),
)  # fmt: skip
def test_no_shape_of_a_call_ends_as_an_answer(
    calls: list[tuple[str, str]], before: str, cut: int, slip: str
) -> None:
    """Several calls of any forms behind prose, the last one cut; a name that there is not,
    an end that is another one: all of them are read, or it is known that something was not.
    """
    parts = [before]
    for form, path in calls:
        text = FORMS[form].replace("a.py", path)
        if slip == "the name":
            text = text.replace(NAME, "file_ops__raed_file").replace(READ, "file_ops.raed_file")
        if slip == "the end":
            text = text.replace("</function>", "</fuction>").replace("</tool_call>", "</toolcall>")
        parts.append(text)
    whole = "\n".join(parts)
    text = whole[: len(whole) - min(cut, len(parts[-1]) - 1)]
    found = read_calls(text, KNOWN)
    paths = [call.arguments["path"] for call in found.calls]
    wanted = [path for _, path in calls]
    in_order = iter(wanted)
    assert all(path in in_order for path in paths)
    is_all = len(paths) == len(wanted) and not slip
    # A name that there is not is no call in what may be data or an example.
    marked = any(not FORMS[form].startswith(("{", "[{", "```")) for form, _ in calls[:-1])
    assert (
        is_all
        or found.unread
        or (slip == "the name" and not marked)
        or (len(paths) >= len(wanted) - 1 and len(parts[-1]) - cut <= hidden(parts[-1]))
        or (slip == "the end" and len(paths) == len(wanted))
    ), (paths, text)


def test_ends_of_fences_are_looked_for_only_so_often() -> None:
    """Each look goes to the end of the text; what nobody looked at is no answer."""
    found = read_calls("```json\n" * 20, KNOWN)
    assert (found.calls, found.unread) == ((), False)
    found = read_calls("```json\n" * 21, KNOWN)
    assert (found.calls, found.unread) == ((), True)
