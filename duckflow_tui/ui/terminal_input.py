"""Bytes from a terminal as events: keys, pastes, the mouse; replies of the terminal are eaten.

Sequences are told apart before their meaning is looked up, so that one cut anywhere means the same
as one that came whole, and one that means nothing never turns into text.
"""

from __future__ import annotations

import re
from codecs import utf_8_decode
from typing import Final

from textual import constants, events
from textual.message import Message

from duckflow_tui.ui.terminal_sequences import SequenceReader

#: Seconds of silence after which the rest of a sequence, or of a character, is not waited for.
SEQUENCE_SILENCE: Final = 1.0
#: Seconds of silence after which a paste without its end mark is taken as it is.
PASTE_SILENCE: Final = 3.0

#: Seconds in which lines that come at once after such a paste are its rest, and no keys.
REST_WITHIN: Final = 60.0

PASTE_START: Final = b"\x1b[200~"
PASTE_END: Final = b"\x1b[201~"

_LONGEST: Final = 4096  # bytes of a sequence; what an input method writes at once has fewer

#: Strings that terminals send: replies with colours, versions, settings (OSC, DCS, kitty's APC).
#: Their first characters are looked at, since Alt+] begins as an OSC does.
_STRING: Final = rb"\x1b(?:\]\d+;|P[\d;]*[!$+>]|_G)[^\x00-\x1f]*"
_CSI: Final = rb"\x1b\[(?![M\[])[ -?]*"
_WHOLE: Final = re.compile(
    rb"\x1b\[M[ -\xff]{3}"  # a mouse report of the X10 kind
    rb"|\x1b\[\[[A-E]"  # F1 to F5 of the Linux console
    rb"|\x1b\[(?:[378]|2[34])\$"  # rxvt: with Shift
    rb"|" + _CSI + rb"[@-~]"
    rb"|\x1bO[\d;]*[@-~]"
    rb"|" + _STRING + rb"(?:\x07|\x1b\\)"
)
_BEGINNING: Final = re.compile(
    rb"\x1b(?:\[(?:M[ -\xff]{0,2}|\[)?|O[\d;]*|\]\d*|P[\d;]*|_)?"
    rb"|" + _CSI + rb"|" + _STRING + rb"\x1b?"
)
#: No key begins so: what does not become a whole sequence is dropped.
_FRAGMENT: Final = re.compile(rb"\x1b\[(?:M[ -\xff]{0,2}|[ -?]+)|" + _STRING + rb"(?:\x1b\Z)?")
#: What goes on a sequence that was cut behind its Esc. Any other character behind an Esc that came
#: by itself was typed: a terminal writes Alt and a character at once.
_GOES_ON: Final = b"[O]P_\x1b"
#: More than a key: a line with its end, or what ends the paste.
_REST: Final = re.compile(rb"[^\x1b\r\n][\r\n]|[\r\n][^\x1b]|\x1b\[201~")
#: What follows the Esc of a cut sequence, and what nobody types at once.
_TAIL: Final = re.compile(rb"\[[0-?A-Z]|\]\d+;|P[\d;]*[!$+>]|_G")
#: A reply, or a key of the protocol in which Esc is a sequence of its own.
_KITTY: Final = re.compile(rb"\x1b\[(?:\?\d+|[\d:;]+)u")


class PasteUnfinished(Message):
    """The end mark of a paste did not come; the text so far was pasted."""


class TerminalInput:
    """Turns what a terminal sends into events, whichever way the bytes are cut.

    ``now`` is in seconds, of a clock that only goes forward.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()  # that make no event yet
        self._in_paste = False
        self._searched = 0  # bytes of the paste in which its end mark does not begin
        self._unfinished_at = float("-inf")  # when a paste was taken without its end mark
        self._came_at = 0.0
        self._escaped_at = float("-inf")  # when an Esc was taken for the key
        self._knows_escape = False  # the terminal sends the Esc key as a sequence
        self._reader = SequenceReader()

    def feed(self, data: bytes, now: float) -> list[Message]:
        """The events that are complete with these bytes."""
        if not data:
            return []
        found: list[Message] = []
        if self._may_be_escape_key and data[0] not in _GOES_ON:
            found = self._take(waits=False)
        elif self._escaped_at + SEQUENCE_SILENCE >= now and _TAIL.match(data):
            self._bytes += b"\x1b"
        self._escaped_at = float("-inf")
        if self._is_rest_of_paste(data, now):
            self._in_paste, self._searched = True, 0
        self._came_at = now
        self._bytes += data
        return found + self._take(waits=True)

    def _is_rest_of_paste(self, data: bytes, now: float) -> bool:
        """Whether these bytes belong to a paste that was taken without its end mark."""
        late = not self._bytes and self._unfinished_at + REST_WITHIN >= now
        return late and PASTE_START not in data and _REST.search(data) is not None

    def wait(self, now: float) -> float | None:
        """Seconds until ``tick`` may bring something if nothing is sent; None for never."""
        return max(self._came_at + self._silence - now, 0.0) if self._waits else None

    def tick(self, now: float) -> list[Message]:
        """The events that become complete by silence."""
        if not self._waits or now < self._came_at + self._silence:
            return []
        if self._in_paste:
            return self._end_paste_early(now)
        if self._is_escape:
            self._escaped_at = now
        return self._take(waits=False)

    @property
    def _waits(self) -> bool:
        return self._in_paste or bool(self._bytes)

    @property
    def _silence(self) -> float:
        if self._in_paste:
            return PASTE_SILENCE
        return constants.ESCAPE_DELAY if self._may_be_escape_key else SEQUENCE_SILENCE

    @property
    def _is_escape(self) -> bool:
        return bytes(self._bytes) == b"\x1b"

    @property
    def _may_be_escape_key(self) -> bool:
        return self._is_escape and not self._knows_escape

    def _take(self, *, waits: bool) -> list[Message]:
        """The events of the bytes so far; ``waits`` keeps what may be the beginning of one."""
        found: list[Message] = []
        while self._bytes:
            if self._in_paste:
                if not self._end_paste(found):
                    break
            elif self._bytes[0] != 0x1B:
                if not self._take_text(found, waits=waits):
                    break
            elif not self._take_sequence(found, waits=waits):
                break
        return found

    def _take_text(self, found: list[Message], *, waits: bool) -> bool:
        """Take the characters before the next sequence; False where one is not whole yet."""
        end = self._bytes.find(b"\x1b")
        final = end >= 0 or not waits
        run = bytes(self._bytes if end < 0 else self._bytes[:end])
        text, taken = utf_8_decode(run, "replace", final)
        del self._bytes[:taken]
        for character in text:
            found += self._reader.read_character(character)
        return taken == len(run)

    def _take_sequence(self, found: list[Message], *, waits: bool) -> bool:
        """Take what begins with Esc; False where it is not whole yet."""
        data = bytes(self._bytes)
        whole = _WHOLE.match(data)
        if whole is not None:
            del self._bytes[: whole.end()]
            self._take_whole(found, whole.group())
            return True
        if waits and _BEGINNING.fullmatch(data):
            self._forget_middle()
            return False
        fragment = _FRAGMENT.match(data)
        if fragment is not None:
            del self._bytes[: fragment.end()]
            return True
        character, _ = utf_8_decode(data[1:5], "replace", not waits)
        if waits and not character:
            return False
        if data[1:2] in (b"", b"\x1b"):
            del self._bytes[:1]
            found += self._reader.read_character("\x1b")
        else:
            invalid = character[0] == "\ufffd"
            del self._bytes[: 2 if invalid else 1 + len(character[0].encode())]
            found += self._reader.read_alt(character[0])
        return True

    def _take_whole(self, found: list[Message], sequence: bytes) -> None:
        if sequence == PASTE_START:
            self._in_paste, self._searched = True, 0
        if sequence in (PASTE_START, PASTE_END):
            self._unfinished_at = float("-inf")
        if _KITTY.fullmatch(sequence):
            self._knows_escape = True
        if sequence.startswith(b"\x1bO"):
            found += self._reader.read_function(sequence.decode("ascii"))
        elif sequence.startswith(b"\x1b[") and not sequence.startswith(b"\x1b[M"):
            found += self._reader.read(sequence.decode("ascii"))

    def _forget_middle(self) -> None:
        """Bound what is kept of a sequence that is still coming; one so long means nothing."""
        if len(self._bytes) > _LONGEST:
            if self._bytes.startswith(b"\x1b["):
                self._bytes[:] = b"\x1b[?"  # a reply to nothing
            else:
                del self._bytes[_LONGEST // 2 : -1]  # its last byte may be half of its end

    def _end_paste(self, found: list[Message]) -> bool:
        end = self._bytes.find(PASTE_END, self._searched)
        if end < 0:
            self._searched = max(len(self._bytes) - len(PASTE_END) + 1, 0)
            return False
        found.append(_paste(self._bytes[:end]))
        del self._bytes[: end + len(PASTE_END)]
        self._in_paste, self._unfinished_at = False, float("-inf")
        return True

    def _end_paste_early(self, now: float) -> list[Message]:
        """Give out what was pasted; the beginning of an end mark goes on as a sequence."""
        self._in_paste, self._came_at, self._unfinished_at = False, now, now
        held = next(n for n in range(len(PASTE_END), -1, -1) if self._bytes.endswith(PASTE_END[:n]))
        text = self._bytes[: len(self._bytes) - held]
        del self._bytes[: len(text)]
        return [_paste(text), PasteUnfinished()] if text else []


def _paste(text: bytearray) -> events.Paste:
    return events.Paste(text.decode("utf-8", "replace").replace("\x00", ""))
