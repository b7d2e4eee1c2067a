"""Separates reasoning from the answer in the content of a reply, and removes template marks that
servers pass through if they do not know their model's template.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

Hear = Callable[[str], None]

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"
_CHANNEL: Final = "<|channel|>"
#: Marks behind which the head of a message stands, and those that end it; a line's end does too.
_HEADS: Final = ("<|start|>", _CHANNEL, "<|start_header_id|>")
_LINE_HEADS: Final = ("<|im_start|>", "<start_of_turn>")
_HEAD_ENDS: Final = ("<|message|>", "<|end_header_id|>")
#: Marks that end the reply; text after them is an invented next message.
_LAST: Final = (
    "<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|return|>", "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
)  # fmt: skip
_DROPPED: Final = ("<|end|>", "<|begin_of_text|>")
_MARKS: Final = (_OPEN, _CLOSE, *_HEADS, *_LINE_HEADS, *_HEAD_ENDS, *_LAST, *_DROPPED)
_MARK: Final = re.compile("|".join(map(re.escape, _MARKS)))
_LONGEST: Final = max(map(len, _MARKS))
_MOST_BLANK: Final = 64  # characters of space that are held back before the answer
_ENDS: Final = (".", "!", "?", "。", "！", "？")  # of a sentence, behind which reasoning may begin
_LONGEST_HEAD: Final = 300  # characters; longer text is not a header


class ReplySplitter:
    """Splits content while it arrives, in pieces of any size. Marks within code (between backticks)
    or in an answer that is JSON count as text.
    """

    def __init__(self, answer: Hear, thought: Hear, restart: Callable[[], None]) -> None:
        """``answer`` and ``thought`` are called with their parts of the text. ``restart`` is called
        if the whole answer so far turns out to be reasoning, because an end mark without a
        beginning follows.
        """
        self._answer = answer
        self._thought = thought
        self._restart = restart
        self._held: str = ""  # the end of the text so far, if it may begin a mark
        self._state: Literal["answer", "thought", "head", "over"] = "answer"
        self._head: str = ""  # of a message, with its mark
        self._in_channel = False  # the reasoning has a message of its own
        self._blank: str = ""  # space before the answer
        self._is_behind = False  # reasoning came before the answer
        self._has_begun = False  # the answer, with something that is no space
        self._is_json = False
        self._ticks: int = 0  # backticks of the answer
        self._before: str = ""  # the last sign of the answer's last line that is no space
        self._names_tag = False  # the answer speaks of the tag

    def feed(self, piece: str) -> None:
        """Take the next piece of the content."""
        text, at = self._held + piece, 0
        for found in _MARK.finditer(text):
            self._take_text(text[at : found.start()])
            self._take_mark(found.group())
            at = found.end()
        rest = text[at:]
        begun = rest.rfind("<", -_LONGEST)
        is_open = begun >= 0 and any(mark.startswith(rest[begun:]) for mark in _MARKS)
        cut = begun if is_open else len(rest)
        self._take_text(rest[:cut])
        self._held = rest[cut:]

    def close(self) -> None:
        """Pass on text that was held back because it might begin a mark."""
        held, self._held = self._held, ""
        self._take_text(held)
        # A truncated call contains "to="; prose after a false mark contains blanks.
        if self._state == "head" and ("to=" in self._head or " " in self._head.strip()):
            self._state = "answer"
            self._take_text(self._head)
        if self._blank and not self._is_behind:
            self._answer(self._blank)
        self._blank, self._state = "", "over"

    def _take_text(self, text: str) -> None:
        """Pass text without marks to the current part of the reply."""
        if not text or self._state == "over":
            return
        if self._state == "thought":
            self._thought(text)
        elif self._state == "head":
            self._take_head(text)
        else:
            self._take_answer(text)

    def _take_head(self, text: str) -> None:
        """Collect text of a message header. Text after its end becomes answer, and so does the
        header itself if it is too long to be one.
        """
        self._head += text
        if self._head.startswith(_LINE_HEADS):
            _, newline, rest = self._head.partition("\n")
            if newline:
                self._state = "answer"
                self._take_text(rest)
        elif len(self._head) > _LONGEST_HEAD:
            self._state = "answer"
            self._take_text(self._head)

    def _take_answer(self, text: str) -> None:
        """Pass text to the answer. Blanks at its beginning are held back until more comes, and left
        out behind reasoning.
        """
        if not self._has_begun:
            text, self._blank = self._blank + text, ""
            begin = text.lstrip()
            if self._is_behind:
                text = begin
            if not begin and len(text) <= _MOST_BLANK:
                self._blank = text
                return
            self._has_begun, self._is_json = True, begin.startswith(("{", "["))
        self._ticks += text.count("`")
        _, newline, last = text.rpartition("\n")
        self._before = last.rstrip()[-1:] or ("" if newline else self._before)
        self._answer(text)

    def _take_mark(self, mark: str) -> None:
        """Handle a mark by the current part of the reply."""
        if self._state == "thought":
            self._take_mark_in_thought(mark)
        elif self._state == "head":
            self._take_mark_in_head(mark)
        elif self._state == "answer" and (self._is_json or self._ticks % 2):
            self._take_answer(mark)
        elif self._state == "answer":
            self._take_mark_in_answer(mark)

    def _take_mark_in_thought(self, mark: str) -> None:
        """Handle a mark in reasoning: it ends the reasoning or the reply, or is text."""
        ends = ("<|end|>", *_HEADS) if self._in_channel else (_CLOSE,)
        if mark in ends:
            self._state, self._is_behind = "answer", True
            if mark in _HEADS:
                self._state, self._head = "head", mark
        elif mark in _LAST:
            self._state = "over"
        else:
            self._thought(mark)

    def _take_mark_in_head(self, mark: str) -> None:
        """Handle a mark in a message header: it ends the header, which tells the part that follows,
        or belongs to it.
        """
        head, self._head = self._head + mark, ""
        if mark not in _HEAD_ENDS:
            self._head = head
        elif "to=" in head:  # a call as text: it is read where all calls of that kind are
            self._state = "answer"
            self._take_answer(head[max(head.rfind(_CHANNEL), 0) :])
        else:
            is_thought = head.rpartition(_CHANNEL)[2].startswith("analysis")
            self._state, self._in_channel = "thought" if is_thought else "answer", is_thought

    def _take_mark_in_answer(self, mark: str) -> None:
        """Handle a mark in the answer: it begins reasoning or a header, restarts or ends the
        answer, or is text.
        """
        if mark == _OPEN and self._before in ("", *_ENDS):
            self._state, self._in_channel, self._blank = "thought", False, ""
        elif mark == _CLOSE and not self._names_tag:
            self._restart()
            self._has_begun, self._is_behind, self._before, self._blank = False, True, "", ""
        elif mark in (_OPEN, _CLOSE):
            self._names_tag = True
            self._take_answer(mark)
        elif mark in _HEADS or (mark in _LINE_HEADS and not self._has_begun):
            self._state, self._head = "head", mark
        elif self._has_begun and mark in (*_LAST, *_LINE_HEADS):
            self._state = "over"
