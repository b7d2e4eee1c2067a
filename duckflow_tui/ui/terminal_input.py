"""Splits the bytes that a terminal sends into characters, escape sequences and pastes.

A sequence is delimited by its syntax before its meaning is looked up. So it means the same however
its bytes were divided between reads, and an unknown sequence never turns into text.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from typing import Final

from textual import constants, events
from textual.message import Message

from duckflow_tui.ui.terminal_sequences import SequenceReader

#: Seconds without input after which an incomplete sequence or character is given up.
SEQUENCE_SILENCE: Final = 1.0
#: Seconds without input after which a paste is delivered although its end mark did not come.
PASTE_SILENCE: Final = 3.0

#: Seconds after a paste without an end mark in which a block of lines still belongs to it.
PASTE_REMAINDER_S: Final = 60.0

PASTE_START: Final = b"\x1b[200~"
PASTE_END: Final = b"\x1b[201~"

_MAX_SEQUENCE: Final = 4096  # bytes; text that an input method sends at once is shorter

#: Replies with colours, versions or settings (OSC, DCS, kitty's APC), without their terminator.
#: The characters behind the introducer matter, because Alt+] begins like an OSC.
_STRING_REPLY: Final = rb"\x1b(?:\]\d+;|P[\d;]*[!$+>]|_G)[^\x00-\x1f]*"
_CSI: Final = rb"\x1b\[(?![M\[])[ -?]*"
_COMPLETE_SEQUENCE: Final = re.compile(
    rb"\x1b\[M[ -\xff]{3}"  # a mouse report of the X10 kind
    rb"|\x1b\[\[[A-E]"  # F1 to F5 of the Linux console
    rb"|\x1b\[(?:[378]|2[34])\$"  # rxvt: with Shift
    rb"|" + _CSI + rb"[@-~]"
    rb"|\x1bO[\d;]*[@-~]"
    rb"|" + _STRING_REPLY + rb"(?:\x07|\x1b\\)"
)
_SEQUENCE_PREFIX: Final = re.compile(
    rb"\x1b(?:\[(?:M[ -\xff]{0,2}|\[)?|O[\d;]*|\]\d*|P[\d;]*|_)?"
    rb"|" + _CSI + rb"|" + _STRING_REPLY + rb"\x1b?"
)
#: An incomplete sequence that no key begins with; it is dropped.
_BROKEN_SEQUENCE: Final = re.compile(
    rb"\x1b\[(?:M[ -\xff]{0,2}|[ -?]+)|" + _STRING_REPLY + rb"(?:\x1b\Z)?"
)
#: Bytes that may continue a sequence of which only the Esc has arrived. Any other byte was typed
#: after the Esc key: a terminal sends Alt and a character in one write.
_CONTINUES_ESCAPE: Final = b"[O]P_\x1b"
#: Input that no single key sends: text next to a line end, or the end mark of a paste.
_PASTE_REMAINDER: Final = re.compile(rb"[^\x1b\r\n][\r\n]|[\r\n][^\x1b]|\x1b\[201~")
#: The rest of a sequence that was cut after its Esc; nobody types it in one write.
_SEQUENCE_AFTER_ESCAPE: Final = re.compile(rb"\[[0-?A-Z]|\]\d+;|P[\d;]*[!$+>]|_G")
#: A key or a reply of kitty's protocol, in which the Esc key is a sequence of its own.
_KITTY_KEY_OR_REPLY: Final = re.compile(rb"\x1b\[(?:\?\d+|[\d:;]+)u")


class PasteUnfinished(Message):
    """Sent when a paste was delivered although its end mark did not come."""


class TerminalInput:
    """Turns a terminal's bytes into events, however they are split between reads.

    ``now`` is seconds of a monotonic clock.
    """

    def __init__(self) -> None:
        self._pending = bytearray()  # input that makes no event yet
        self._in_paste = False
        self._search_from = 0  # offset before which the end mark of a paste cannot begin
        self._paste_cut_at = float("-inf")  # when a paste was delivered without its end mark
        self._last_input_at = 0.0
        self._escape_key_at = float("-inf")  # when a lone Esc was delivered as the Esc key
        self._sends_escape_sequence = False  # the terminal sends the Esc key as a sequence
        self._reader = SequenceReader()

    def feed_bytes(self, data: bytes, now: float) -> list[Message]:
        """Add input and return the events that it completes."""
        if not data:
            return []
        found: list[Message] = []
        if self._may_be_escape_key and data[0] not in _CONTINUES_ESCAPE:
            found = self._read_pending(keep_incomplete=False)
        elif self._escape_key_at + SEQUENCE_SILENCE >= now and _SEQUENCE_AFTER_ESCAPE.match(data):
            self._pending += b"\x1b"
        self._escape_key_at = float("-inf")
        if self._is_rest_of_paste(data, now):
            self._in_paste, self._search_from = True, 0
        self._last_input_at = now
        self._pending += data
        return found + self._read_pending(keep_incomplete=True)

    def _is_rest_of_paste(self, data: bytes, now: float) -> bool:
        """Whether these bytes belong to a paste that was delivered without its end mark."""
        late = not self._pending and self._paste_cut_at + PASTE_REMAINDER_S >= now
        return late and PASTE_START not in data and _PASTE_REMAINDER.search(data) is not None

    def seconds_until_tick(self, now: float) -> float | None:
        """Return the seconds without input after which ``check_silence`` must be called; None for
        never.
        """
        return (
            max(self._last_input_at + self._silence_limit - now, 0.0) if self._has_pending else None
        )

    def check_silence(self, now: float) -> list[Message]:
        """Return the events decided by silence, such as the Esc key for a lone Esc byte."""
        if not self._has_pending or now < self._last_input_at + self._silence_limit:
            return []
        if self._in_paste:
            return self._finish_paste_early(now)
        if self._is_lone_escape:
            self._escape_key_at = now
        return self._read_pending(keep_incomplete=False)

    @property
    def _has_pending(self) -> bool:
        return self._in_paste or bool(self._pending)

    @property
    def _silence_limit(self) -> float:
        """Seconds of silence after which pending bytes count as complete."""
        if self._in_paste:
            return PASTE_SILENCE
        return constants.ESCAPE_DELAY if self._may_be_escape_key else SEQUENCE_SILENCE

    @property
    def _is_lone_escape(self) -> bool:
        """Whether only an escape character is pending."""
        return bytes(self._pending) == b"\x1b"

    @property
    def _may_be_escape_key(self) -> bool:
        """Whether the pending escape may be the key, which this terminal sends as that
        character.
        """
        return self._is_lone_escape and not self._sends_escape_sequence

    def _read_pending(self, *, keep_incomplete: bool) -> list[Message]:
        """Return the events of the pending bytes; ``keep_incomplete`` leaves an incomplete sequence
        pending.
        """
        found: list[Message] = []
        while self._pending:
            if self._in_paste:
                if not self._finish_paste(found):
                    break
            elif self._pending[0] != 0x1B:
                if not self._read_text(found, keep_incomplete=keep_incomplete):
                    break
            elif not self._read_sequence(found, keep_incomplete=keep_incomplete):
                break
        return found

    def _read_text(self, found: list[Message], *, keep_incomplete: bool) -> bool:
        """Read the characters before the next Esc; False where the last one is incomplete."""
        end = self._pending.find(b"\x1b")
        final = end >= 0 or not keep_incomplete
        run = bytes(self._pending if end < 0 else self._pending[:end])
        text, taken = utf_8_decode(run, "replace", final)
        del self._pending[:taken]
        for character in text:
            found += self._reader.read_character(character)
        return taken == len(run)

    def _read_sequence(self, found: list[Message], *, keep_incomplete: bool) -> bool:
        """Read a sequence, Alt with a character, or the Esc key; False where it is incomplete."""
        data = bytes(self._pending)
        whole = _COMPLETE_SEQUENCE.match(data)
        if whole is not None:
            del self._pending[: whole.end()]
            self._handle_sequence(found, whole.group())
            return True
        if keep_incomplete and _SEQUENCE_PREFIX.fullmatch(data):
            self._shorten_pending()
            return False
        fragment = _BROKEN_SEQUENCE.match(data)
        if fragment is not None:
            del self._pending[: fragment.end()]
            return True
        character, _ = utf_8_decode(data[1:5], "replace", not keep_incomplete)
        if keep_incomplete and not character:
            return False
        if data[1:2] in (b"", b"\x1b"):
            del self._pending[:1]
            found += self._reader.read_character("\x1b")
        else:
            invalid = character[0] == "\ufffd"
            del self._pending[: 2 if invalid else 1 + len(character[0].encode())]
            found += self._reader.read_alt(character[0])
        return True

    def _handle_sequence(self, found: list[Message], sequence: bytes) -> None:
        if sequence == PASTE_START:
            self._in_paste, self._search_from = True, 0
        if sequence in (PASTE_START, PASTE_END):
            self._paste_cut_at = float("-inf")
        if _KITTY_KEY_OR_REPLY.fullmatch(sequence):
            self._sends_escape_sequence = True
        if sequence.startswith(b"\x1bO"):
            found += self._reader.read_function(sequence.decode("ascii"))
        elif sequence.startswith(b"\x1b[") and not sequence.startswith(b"\x1b[M"):
            found += self._reader.read(sequence.decode("ascii"))

    def _shorten_pending(self) -> None:
        """Drop a part of an incomplete sequence that is longer than any valid one."""
        if len(self._pending) > _MAX_SEQUENCE:
            if self._pending.startswith(b"\x1b["):
                self._pending[:] = b"\x1b[?"  # read on as a reply, which is dropped
            else:
                del self._pending[
                    _MAX_SEQUENCE // 2 : -1
                ]  # the last byte may be half of the terminator

    def _finish_paste(self, found: list[Message]) -> bool:
        end = self._pending.find(PASTE_END, self._search_from)
        if end < 0:
            self._search_from = max(len(self._pending) - len(PASTE_END) + 1, 0)
            return False
        found.append(_paste_event(self._pending[:end]))
        del self._pending[: end + len(PASTE_END)]
        self._in_paste, self._paste_cut_at = False, float("-inf")
        return True

    def _finish_paste_early(self, now: float) -> list[Message]:
        """Deliver a paste without its end mark; a partial end mark stays pending as a sequence."""
        self._in_paste, self._last_input_at, self._paste_cut_at = False, now, now
        marker_length = next(
            n for n in range(len(PASTE_END), -1, -1) if self._pending.endswith(PASTE_END[:n])
        )
        text = self._pending[: len(self._pending) - marker_length]
        del self._pending[: len(text)]
        return [_paste_event(text), PasteUnfinished()] if text else []


def _paste_event(text: bytearray) -> events.Paste:
    return events.Paste(text.decode("utf-8", "replace").replace("\x00", ""))
