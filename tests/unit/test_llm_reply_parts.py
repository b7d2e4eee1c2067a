"""Reasoning and the marks of templates in the content of a reply are never part of the answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.llm.reply_parts import ReplySplitter

HARMONY = (
    "<|channel|>analysis<|message|>We think.<|end|><|start|>assistant<|channel|>commentary"
    "<|message|>I look. <|end|><|start|>assistant<|channel|>final<|message|>Four.<|return|>"
)
CALL = '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a"}<|call|>'
#: Content as servers have passed it on: the answer, and the reasoning.
CASES = {
    "Four.": ("Four.", ""),
    "\n<think>\nI add.\n</think>\n\nFour.": ("Four.", "\nI add.\n"),
    "I add.\n</think>\n\nFour.": ("Four.", "I add.\n"),
    "I add.</think>Four.": ("Four.", "I add."),
    "</think>\n\nFour.": ("Four.", ""),
    "<think>a</think>One.\n<think>b</think>\nTwo.": ("One.\n\nTwo.", "ab"),
    "<think>a</think>One.<think>b</think> Two.": ("One. Two.", "ab"),
    "<think>never closed": ("", "never closed"),
    "One.\n<think>cut": ("One.\n", "cut"),
    "<think>I add.<|im_end|>": ("", "I add."),
    HARMONY: ("I look. Four.", "We think."),
    "<|channel|>final<|message|>Four.": ("Four.", ""),
    CALL: (CALL, ""),
    f"<|start|>assistant{CALL}": (CALL, ""),
    f"<|channel|>analysis<|message|>I read it.<|end|>{CALL}": (CALL, "I read it."),
    "<|channel|>commentary to=functions.re": ("<|channel|>commentary to=functions.re", ""),
    "The mark <|start|> begins a message": ("The mark <|start|> begins a message", ""),
    "Four.<|im_end|>": ("Four.", ""),
    "Four.<|im_end|>\n<|im_start|>user\nAnd 3 + 3?": ("Four.", ""),
    "<|im_start|>assistant\nFour.<|im_end|>": ("Four.", ""),
    "<start_of_turn>model\nFour.<end_of_turn>": ("Four.", ""),
    "<|start_header_id|>assistant<|end_header_id|>\n\nFour.<|eot_id|>": ("\n\nFour.", ""),
    "Four.<｜end▁of▁sentence｜>": ("Four.", ""),
    "Four.<|endoftext|>Question: 3 + 3": ("Four.", ""),
    # What only speaks of marks stays as it is.
    "The tags `<think>` and `</think>` are removed.": (
        "The tags `<think>` and `</think>` are removed.", ""),
    "Put it between <think> and </think>, please.": (
        "Put it between <think> and </think>, please.", ""),
    "```python\nEND = \"<|im_end|>\"\n```\nThat is all.": (
        "```python\nEND = \"<|im_end|>\"\n```\nThat is all.", ""),
    '{"reply": "ends with <|im_end|> or </think>"}': (
        '{"reply": "ends with <|im_end|> or </think>"}', ""),
    "x<think>y</think>": ("x<think>y</think>", ""),
    "<thin ice": ("<thin ice", ""),
    "a < b and c <": ("a < b and c <", ""),
    "  ": ("  ", ""),
}  # fmt: skip


class Ear:
    """Hears the parts as the screen does: what is taken back is gone."""

    def __init__(self) -> None:
        self.answer = ""
        self.thought = ""

    def hear_answer(self, text: str) -> None:
        self.answer += text

    def hear_thought(self, text: str) -> None:
        self.thought += text

    def restart(self) -> None:
        self.thought += self.answer
        self.answer = ""


def split(pieces: list[str]) -> tuple[str, str]:
    ear = Ear()
    splitter = ReplySplitter(ear.hear_answer, ear.hear_thought, ear.restart)
    for piece in pieces:
        splitter.feed(piece)
    splitter.close()
    return ear.answer, ear.thought


@pytest.mark.parametrize("content", CASES)
def test_only_the_answer_is_left_however_the_content_comes(content: str) -> None:
    for size in (1, 2, 3, 7, len(content)):
        pieces = [content[at : at + size] for at in range(0, len(content), size)]
        assert split(pieces) == CASES[content], size


MARKS = st.sampled_from(
    ["<think>", "</think>", "<|channel|>", "analysis", "<|message|>", "<|end|>", "<|start|>",
     "<|im_end|>", "`", "{", "\n", " ", "to=", "Four.", "<", "|>"]
)  # fmt: skip


@given(parts=st.lists(MARKS, max_size=14), cuts=st.lists(st.integers(1, 9), min_size=1))
def test_pieces_make_the_same_as_the_whole(parts: list[str], cuts: list[int]) -> None:
    content, pieces, at = "".join(parts), list[str](), 0
    for number in range(len(content)):
        size = cuts[number % len(cuts)]
        pieces.append(content[at : at + size])
        at += size
    assert split(pieces) == split([content])
