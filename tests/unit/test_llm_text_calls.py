"""Calls written as text: read in every form that models have, never taken for an answer."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
KNOWN = {**OWN, **{name.replace(".", "__"): fields for name, fields in OWN.items()}}
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
    "our own name": json.dumps({"operation": READ, "args": ARGS}),
    "a prefix": json.dumps({"name": f"functions.{NAME}", "arguments": ARGS}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_read_in_the_form_the_model_has(form: str) -> None:
    found = read_calls(FORMS[form], KNOWN)
    assert [(call.name in (NAME, READ), call.arguments) for call in found.calls] == [(True, ARGS)]
    assert (found.rest, found.unread) == ("", False)


#: Those that have to be the whole of a reply.
ALONE = {"llama, bare", "openai, bare", "our own name", "a prefix"}


@pytest.mark.parametrize("form", sorted(FORMS.keys() - ALONE))
def test_what_stands_around_a_call_is_the_reply(form: str) -> None:
    found = read_calls(f"I look at it first.\n\n{FORMS[form]}", KNOWN)
    assert [call.arguments for call in found.calls] == [ARGS]
    assert (found.rest, found.unread) == ("I look at it first.", False)


@pytest.mark.parametrize("form", ["hermes", "qwen coder", "invoke", "deepseek", "kimi", "fenced"])
def test_several_calls_come_in_their_order(form: str) -> None:
    second = FORMS[form].replace("a.py", "b.py")
    found = read_calls(f"{FORMS[form]}\n{second}", KNOWN)
    assert [call.arguments["path"] for call in found.calls] == ["a.py", "b.py"]
    assert not found.unread


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


@pytest.mark.parametrize(
    "text",
    [
        "x is 1.",
        "Models write calls so:\n```xml\n<tool_call>\n{...}\n</tool_call>\n```\nand so on.",
        'The settings:\n```json\n{"name": "shop", "arguments": []}\n```',
        '{"name": "shop", "parameters": {}}',
        "A list: [1, 2, 3] and a < b.",
        "Use `*** Begin Patch` for that.",
    ],
)
def test_an_answer_stays_one(text: str) -> None:
    assert read_calls(text, KNOWN) == ((), text, False)


@given(
    form=st.sampled_from(sorted(FORMS)),
    share=st.floats(0.0, 1.0),
    before=st.sampled_from(["", "I look.\n"]),
)
def test_no_cut_of_a_call_is_an_answer(form: str, share: float, before: str) -> None:
    """Whatever is left of it is a call, or is known as a call that cannot be read, or holds
    nothing of the mark yet. A bare object that is cut is no JSON, which is another matter.
    """
    whole = FORMS[form]
    text = before + whole[: round(share * len(whole))]
    found = read_calls(text, KNOWN)
    marked = whole.lstrip("`\nx")[:5]
    if found.calls:
        assert all(
            call.arguments == ARGS or ARGS.items() >= call.arguments.items() for call in found.calls
        )
    elif not whole.startswith(("{", "[{", "```")) and marked in text:
        assert found.unread


def test_a_hostile_reply_costs_little_time() -> None:
    begin = time.process_time()
    pieces = (
        "<function=decide><parameter=", "<tool_call>{", "[TOOL_CALLS]", "```\n", '{"a":',
        '<invoke name="decide">', "*** Begin Patch\n", "<｜tool▁call▁begin｜>",
    )  # fmt: skip
    for piece in pieces:
        read_calls(piece * (200_000 // len(piece)), KNOWN)
    assert time.process_time() - begin < 10.0
