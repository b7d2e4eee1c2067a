"""Parses calls that a model wrote as text, in the forms that models were trained on.

A server that does not know its model's format passes such calls on as content. Only complete
replies are parsed, and only known names count. Calls must be at the end of the reply on lines of
their own: text quoted in a line, behind ``>``, indented as code, or followed by prose stays text. A
code fence is an example, unless it contains only calls. Results that a model made up behind its
calls are dropped.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from duckflow_tui.llm.foreign_calls import TextCall, bare_name, name_fields
from duckflow_tui.llm.patches import BEGIN_PATCH, read_patch, split_blocks
from duckflow_tui.llm.reply_json import NotStrict, convert_value, parse_object
from duckflow_tui.state.base import JsonObject, canonical_json

#: The properties of each function's arguments, by each of its names and by their bare forms.
Known = Mapping[str, JsonObject]

MOST: Final = 400_000  # characters
#: By which an object begins that may be a call.
_NAMED: Final = ("name", "tool", "tool_name", "function", "operation", "action")
_KEYS: Final = (*_NAMED, "type", "id", "tool_calls")

_NAME: Final = r"(?:functions\.)?(?P<{0}>[\w.-]{{1,200}}?)(?::\d{{1,9}})?"
#: A mark before or behind calls, of any maker: a tag or a token that speaks of tools or calls.
_CALL_MARK: Final = (
    r"(?:</?[|｜]?/?(?i:\w+:|｜\w+｜|start_|end_)?(?i:tool[_▁]?calls?|tool[_▁]?use|function[_▁]calls?|tools"
    r"|action)(?:[_▁](?:section_)?(?:begin|start|end))?[|｜]?>"
    r"|\[/?TOOL_CALLS\]|<\|python_tag\|>|<\|eo[mt]_id\|>)"
)
#: Where a fence or a call may begin, and the marks around calls. ``++`` and ``*+`` give nothing
#: back: where spaces could be read in two ways, a long run would cost its length squared.
_NEXT: Final = re.compile(
    r"^(?P<fence>`{3,100}+|~{3,100}+)[^\n`]*+\n"
    rf"|<function={_NAME.format('within')}\s*+>?\s*+(?=\{{)"
    rf"|<function={_NAME.format('equals')}>"
    rf"|<(?P<prefix>(?:\w+:|｜\w+｜)?)invoke\s+name=\"{_NAME.format('invoke')}\"\s*>"
    rf"|<tool_call>\s*{_NAME.format('keys')}\s*(?=<arg_key>|</tool_call>)"
    rf"|<\|(?:channel|start)\|>[^<{{]{{0,40}}?to={_NAME.format('harmony')}\b[^{{]{{0,80}}?<\|message\|>\s*(?={{)"
    rf"|^Action:\s*{_NAME.format('action')}\s*+(?<=\n)Action Input:\s*(?={{)"
    rf"|\[TOOL_CALLS\]\s*{_NAME.format('mistral')}\s*(?:\[CALL_ID\]\w+)?(?:\[ARGS\]\s*)?(?={{)"
    r"|(?P<deepseek>)<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?"
    rf"{_NAME.format('sep')}(?:<｜tool▁sep｜>|```json|\s)*+(?={{)"
    rf"|<\|tool_call_begin\|>\s*{_NAME.format('kimi')}\s*<\|tool_call_argument_begin\|>\s*(?={{)"
    rf"|(?P<object>{_CALL_MARK}\s*(?=\{{|\[\s*\{{))"
    r"|(?P<patch>^\*\*\* Begin Patch[ \t]*\n)"
    r"|(?:^|(?<=[>,]))[ \t]*(?:\[\s*+|print\(\s*+)?(?P<python>[A-Za-z_][\w.]{0,100})\("
    r"|^[ \t]*<(?P<tag>[a-z][a-z0-9_.]{2,60})>(?=\s*<[a-z_]+>)"
    rf"|^[ \t]*(?P<bare>)(?=(?:\[\s*)?\{{\s*\"(?:{'|'.join(_KEYS)})\"\s*:)"
    r"|(?P<result><\|?(?:tool|function)_(?:response|result|output)s?\|?>|^Observation:)"
    rf"|(?P<around>{_CALL_MARK}|</function>"
    r"|^Action:[^\n]{1,200}\n+Action Input:"
    r"|<function=|<(?:\w+:|｜\w+｜)?invoke\s|<\|(?:channel|start)\|>[^<{]{0,40}?to=)",
    re.M,
)
_CLOSERS: Final = re.compile(
    r"\s*(?:```\s*)?(?:<｜tool▁call▁end｜>|<\|tool_call_end\|>|<\|call\|>|</function>)?"
)
_CLOSING: Final = re.compile(r"<[|｜]?/|\[/|<\|eo|Observation|.*(?i:end)")
_CUT_END: Final = re.compile(r"\s*(?:</?|\[/)[^\s<>\[\]]{0,40}>?\s*")  # of a mark, at the end
_MOST_FAILED: Final = 20  # calls that cannot be read, or fences without an end; then it stops
_MOST_CUT: Final = 4  # objects without an end: each is read to the end of the text
#: Marks, of which the end of the reply may have left the beginning.
_MARKS: Final = (
    "<tool_call>", "<function=", "<function_calls>", "<invoke name=", "[TOOL_CALLS]",
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>", "<|python_tag|>", "<|channel|>commentary to=", "<｜DSML｜",
    "*** Begin Patch",
)  # fmt: skip
#: Fences that say of themselves that they hold a call.
_TOOL_FENCE: Final = re.compile(r"tool|function_call", re.I)
#: The same with a prefix, whatever that is.
_CUT_PREFIXED: Final = re.compile(
    r"<(?:\w{1,20}:|｜\w{0,20}｜?)(?:i\w{0,5}|invoke\s.{0,80}|f\w{0,13})?\Z"
)
_BLANK: Final = " \t\r\n,[]"  # characters allowed between calls
_SHORTEST: Final = 4  # characters of a mark by which it is known


class TextCalls(NamedTuple):
    """The calls in a reply, and the text before them. ``unread``: something looks like a call and
    cannot be parsed, so nothing of the reply counts as an answer.
    """

    calls: tuple[TextCall, ...]
    rest: str
    unread: bool = False


def read_calls(text: str, known: Known) -> TextCalls:
    """Parse the calls in a complete reply, in order. ``known`` maps each accepted name to the
    schemas of its arguments. Texts over ``MOST`` characters are not parsed; they count as unread
    if they contain a mark of a call.
    """
    if len(text) > MOST:  # one search by the pattern would hold up all threads for seconds
        return TextCalls((), text, any(mark in text for mark in _MARKS))
    before, blocks = split_blocks(text)
    if blocks:
        changes = read_patch(blocks)
        return TextCalls(tuple(changes), before, not changes)
    reader = _Reader(text, known)
    reader.read_all()
    rest = reader.prose.strip()
    if any(rest.endswith(mark[:n]) for mark in _MARKS for n in range(_SHORTEST, len(mark) + 1)):
        reader.unread = True
    if _CUT_PREFIXED.search(rest):
        reader.unread = True
    whole = text.strip()
    if not reader.calls and (calls := _of_json(whole, known)):
        return TextCalls(calls, "")
    if not reader.calls and (_is_cut_object(rest) or _is_python(whole, known)):
        reader.unread = True
    return TextCalls(tuple(reader.calls), rest, reader.unread)


_PYTHON: Final = re.compile(r"\[?\s*(?:functions\.)?([\w.-]+)\((.*\)\s*\]?)?", re.S)
_OBJECT: Final = re.compile(r'^[ \t]*(?:\[\s*)?(?P<begin>\{)\s*(?:"|\Z)|\A\s*\[\s*\Z', re.M)


def _is_python(text: str, known: Known) -> bool:
    """Whether a text is a Python-style call of a known function, or the beginning of one."""
    found = _PYTHON.match(text)
    if found is None or not _known_name(found[1], known):
        return False
    return text.startswith("[") or found.end() == len(text) or ")" not in text


def _is_cut_object(text: str) -> bool:
    """Whether a JSON object, or a list of them, begins on a line of the text and has no end."""
    at = 0
    while found := _OBJECT.search(text, at):
        if found["begin"] is None:
            return True
        whole, at = convert_value(text, found.start("begin"))
        if not whole:
            return True
    return False


class _Reader:
    """Scans a reply for calls at its end, in all forms."""

    def __init__(self, text: str, known: Known, language: str = "") -> None:
        """``language``: that of the code fence if the text is its content."""
        self._in_calls = _TOOL_FENCE.search(language) is not None
        self._in_code = bool(language) and not self._in_calls
        self._text = text
        self._known = known
        self._at: int = 0
        self.calls: list[TextCall] = []
        self._prose_end: int = 0
        self.unread = False
        self._has_read = False  # whether a call was read, even if later prose voided it
        self._opened = False  # a mark was read, and no call behind it yet
        self._failed = 0  # calls that could not be read
        self._unclosed = 0  # fences without an end
        self._cut = 0  # objects without an end

    @property
    def prose(self) -> str:
        """The text before the calls at the end."""
        return self._text[: self._prose_end]

    def _pass_prose(self, start: int, end: int) -> None:
        """Treat a part as prose. Unless it is blank, calls before it become prose too."""
        if self._text[start:end].strip(_BLANK):
            self.calls.clear()
            self._prose_end = end

    def _is_on_own_line(self, at: int) -> bool:
        """Whether a call or mark begins a line, unless indented as code, or directly follows
        another call.
        """
        text = self._text
        if self._prose_end < self._at and not text[self._at : at].strip(_BLANK):
            return True
        head = text[at - 4 : at] if at >= 4 else f"\n{text[:at]}"
        return head.rstrip(" ").endswith("\n")

    def read_all(self) -> None:
        """Parse the whole text; sets ``calls``, ``prose`` and ``unread``."""
        text = self._text
        while self._failed < _MOST_FAILED and (found := _NEXT.search(text, self._at)):
            indent = len(found.group()) - len(found.group().lstrip())
            if not self._is_on_own_line(found.start() + indent):
                self._pass_prose(self._at, found.end())
                self._at = found.end()
                continue
            self._pass_prose(self._at, found.start())
            self._at = found.end()
            if found["result"] and self.calls:
                self._at = len(text)  # the model made up what its calls would bring
            elif found["result"]:
                self._pass_prose(found.start(), found.end())
            elif found["fence"]:
                self._read_fence(found)
            elif found["around"]:
                # An end mark without a beginning is a remnant of a call, too.
                self._opened |= not (_CLOSING.match(found["around"]) and self._has_read)
            elif found["bare"] is not None:
                self._read_bare_objects()
            elif (name := found["python"] or found["tag"]) and not self._is_telling(name):
                self._pass_prose(found.start(), found.end())
            elif self._read_call(found):
                self._opened = False
            else:
                self._failed += 1
            self._has_read |= bool(self.calls)
        self.unread = self._opened or self._failed > 0
        # One or two backticks end a fence that is cut, or a quotation.
        self.unread |= bool(self.calls) and text[self._at :].strip() in ("`", "``")
        if not (self.calls and _CUT_END.fullmatch(text, self._at)):
            self._pass_prose(self._at, len(text))

    def _is_telling(self, name: str) -> bool:
        """Whether a name alone identifies a call; single words only do behind another call, because
        prose and code use them too.
        """
        tells = "." in name or "__" in name if self._in_code else "_" in name or "." in name
        tells = tells or self._in_calls or bool(self.calls)
        return bool(_known_name(name, self._known)) and tells

    def _read_object(self, at: int) -> tuple[JsonObject | None, int]:
        """Parse an object as ``_object_at`` does; stop reading after too many without an end."""
        given, end = _object_at(self._text, at)
        self._cut += end == at and self._text[at : at + 1] == "{"
        if self._cut > _MOST_CUT:
            self._failed = _MOST_FAILED
        return given, end

    def _read_fence(self, found: re.Match[str]) -> None:
        """Parse a code fence: calls if it contains nothing else, otherwise prose."""
        closing = re.compile(rf"^{found['fence']}[ \t]*$", re.M).search(self._text, self._at)
        if closing is None:
            self._unclosed += 1
            if self._unclosed > _MOST_FAILED:  # each look goes to the end of the text
                self._failed = _MOST_FAILED
                return
            inside = self._text[self._at :]
            if calls := _of_json(inside.strip("` \t\r\n"), self._known):
                self.calls += calls
                self._at = len(self._text)
                return
            self._failed += _is_cut_object(inside)
            self._pass_prose(found.start(), found.end())
            return
        inside = self._text[self._at : closing.start()]
        calls = _of_json(inside.strip(), self._known)
        if not calls:
            inner = _Reader(inside, self._known, found.group().strip("`~ \n"))
            if not any(mark in inside for mark in _FENCE_MARKS):
                inner.read_all()
            whole = inner.calls and not inner.unread and not inner.prose
            calls = tuple(inner.calls) if whole else ()
        named = _CALL_NAME.search(inside)
        if not calls and (
            _TOOL_FENCE.search(found.group()) or (named and _known_name(named[1], self._known))
        ):
            self._failed += 1
        self.calls += calls
        self._at = closing.end()
        if not calls:
            self._pass_prose(found.start(), self._at)

    def _read_bare_objects(self) -> None:
        """Parse JSON objects on their own lines: calls if they name known functions, otherwise
        prose.
        """
        text, start = self._text, self._at
        while True:
            begin = text.index("{", start)
            given, end = self._read_object(begin)
            calls = _of_json(canonical_json(given), self._known) if given is not None else ()
            if not calls:
                break
            self.calls += calls
            start = _skip_pattern(_COMMA, text, end)
            if start == end:
                self._at = _skip_pattern(_BEHIND, text, end)
                return
        named = _CALL_NAME.search(text, start, start + _HEAD)
        if end == begin:
            self._failed += 1  # it is cut
        elif named and _known_name(named[1], self._known):
            self._failed += 1
        # Nothing inside it is looked at again.
        self._at = max(end, begin + 1)
        self._pass_prose(start, self._at)

    def _read_call(self, found: re.Match[str]) -> bool:
        """Parse the call at this match; False if it cannot be parsed."""
        if found["patch"] is not None:
            return self._read_patch()
        if found["python"]:
            return self._read_python(found)
        if found["tag"]:
            return self._read_tag(found["tag"])
        if found["object"] is not None:
            return self._read_objects()
        for name in ("mistral", "sep", "kimi", "within", "harmony", "action"):
            if found[name] is not None:
                given, end = self._read_object(self._at)
                key = _known_name(found[name], self._known)
                if given is None or not key:
                    return False
                self._at = _skip_pattern(_CLOSERS, self._text, end)
                self.calls.append(TextCall(key, given))
                return True
        name = found["equals"] or found["invoke"]
        if found["keys"]:
            ends = "</arg_value>", "</tool_call>"
            return self._read_parameters(found["keys"], "<arg_key>", "</arg_key>", *ends)
        if found["equals"]:
            return self._read_parameters(name, "<parameter=", ">", "</parameter>", "</function>")
        prefix = found["prefix"]
        begin, closing = f'<{prefix}parameter name="', f"</{prefix}invoke>"
        return self._read_parameters(name, begin, '"', f"</{prefix}parameter>", closing)

    def _read_objects(self) -> bool:
        """Parse one JSON object or a list of them as calls; False if that fails."""
        text, added = self._text, 0
        while True:
            given, end = self._read_object(_skip_pattern(_BETWEEN, text, self._at))
            call = _of_object(given, self._known) if given is not None else None
            if call is None:
                self._at = _skip_pattern(_BEHIND, text, self._at)
                return given is None and bool(added)
            self._at, added = end, added + 1
            self.calls.append(call)

    def _read_parameters(self, name: str, begin: str, named: str, end: str, closing: str) -> bool:
        """Parse a call whose arguments stand between marks; text arguments are taken literally,
        others as JSON. False if it is cut off or its name unknown.
        """
        text, given = self._text, cast("JsonObject", {})
        key = _known_name(name, self._known)
        stop = text.find(closing, self._at)
        while True:
            if 0 <= stop < self._at:
                stop = text.find(closing, self._at)
            start = text.find(begin, self._at, len(text) if stop < 0 else stop)
            if start < 0:
                break
            middle = text.find(named, start + len(begin))
            last = text.find(end, middle)
            if middle < 0 or last < 0:
                return False
            field = text[start + len(begin) : middle].strip()
            after = text.index(">", middle) + 1 if named == '"' else middle + len(named)
            value = _VALUE.sub("", text[after:last])
            given[field] = _read_value(value, self._known[key].get(field) if key else None)
            self._at = last + len(end)
        if stop < 0:  # more may have been meant
            return False
        self._at = stop + len(closing)
        if not key:
            return False
        self.calls.append(TextCall(key, given))
        return True

    def _read_patch(self) -> bool:
        """Parse a ``*** Begin Patch`` block as one edit per file; False if it cannot be parsed."""
        end = re.compile(r"^\*\*\* End Patch[ \t]*$", re.M).search(self._text, self._at)
        if end is None:
            return False
        changes = read_patch(f"{BEGIN_PATCH}\n{self._text[self._at : end.end()]}")
        self._at = end.end()
        self.calls += [change for change in changes if change.name in self._known]
        return bool(changes)

    def _read_python(self, found: re.Match[str]) -> bool:
        """Parse a Python-style call with literal arguments on its own lines; False if it cannot be
        parsed.
        """
        end = _find_end(self._text, found.end("python"))
        if end < 0:
            return False
        line = _LINE_END.match(self._text, end)
        if line is None:  # words of a sentence
            self._pass_prose(found.start(), found.end())
            return True
        call = _of_python(found["python"], self._text[found.start("python") : end], self._known)
        if call is None:
            return False
        self.calls.append(call)
        self._at = line.end()
        return True

    def _read_tag(self, name: str) -> bool:
        """Parse a call written as an XML element with a child element for each argument; False if
        it is cut off.
        """
        text, key = self._text, _known_name(name, self._known)
        stop = text.find(f"</{name}>", self._at)
        if stop < 0:
            return False
        given: JsonObject = {}
        at = self._at
        while field := _ELEMENT.search(text, at, stop):
            end = text.find(f"</{field[1]}>", field.end(), stop)
            if end < 0:
                return False
            value = text[field.end() : end]
            given[field[1]] = _read_value(value, self._known[key].get(field[1]))
            at = end + 1
        self.calls.append(TextCall(key, given))
        self._at = stop + len(name) + 3
        return True


_ELEMENT: Final = re.compile(r"<([a-z_]{1,60})>")
_LINE_END: Final = re.compile(r"[ \t]*[)\]]?[ \t]*(?=,|\n|<|\Z)")
_PYTHON_TOKEN: Final = re.compile(
    r"\"\"\".*?\"\"\"|\'\'\'.*?\'\'\'|\"(?:[^\"\\\n]|\\.)*\"|\'(?:[^\'\\\n]|\\.)*\'"
    r"|[()\[\]{}]|[^()\[\]{}\"\']++",
    re.S,
)
_LONGEST_CALL: Final = 100_000  # characters of a call as Python has it


def _find_end(text: str, at: int) -> int:
    """Return the position after the bracket that closes the one at ``at``, ignoring brackets in
    strings; -1 if there is none.
    """
    depth, most = 0, at + _LONGEST_CALL
    while at < most and (token := _PYTHON_TOKEN.match(text, at)):
        depth += (token.group() in "([{") - (token.group() in ")]}")
        at = token.end()
        if not depth:
            return at
    return -1


def _of_python(name: str, written: str, known: Known) -> TextCall | None:
    """Convert the source of a Python-style call; None if an argument is not a literal that JSON can
    express.
    """
    key = _known_name(name, known)
    fields = list(known[key])
    try:
        call = ast.parse(written, mode="eval").body
        if not isinstance(call, ast.Call) or len(call.args) > len(fields):
            return None
        values = {fields[at]: ast.literal_eval(arg) for at, arg in enumerate(call.args)}
        values |= {
            str(word.arg): ast.literal_eval(word.value) for word in call.keywords if word.arg
        }
        return TextCall(key, parse_object(canonical_json(values)))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None


_VALUE: Final = re.compile(r"^\s*<arg_value>")
_FENCE_MARKS: Final = "```", "~~~"
_HEAD: Final = 400  # characters of an object in which its name is looked for
_CALL_NAME: Final = re.compile(rf'"(?:{"|".join(_NAMED)})"\s*:\s*"([\w.-]+)"')
_BETWEEN: Final = re.compile(r"[\s\[,\]]*")
_COMMA: Final = re.compile(r"\s*,\s*(?=\{)")
_BEHIND: Final = re.compile(r"[\s,]*\]?")


def _skip_pattern(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the position after the pattern if it matches at ``at``, else ``at``."""
    found = pattern.match(text, at)
    return found.end() if found else at


def _object_at(text: str, at: int) -> tuple[JsonObject | None, int]:
    """Parse the JSON object at a position; return it, None if invalid, and its end, which is ``at``
    if it has none.
    """
    given, end = convert_value(text, at) if text[at : at + 1] == "{" else ("", at)
    try:
        return (parse_object(given), end) if given else (None, at)
    except NotStrict:
        return None, end


def _known_name(name: str, known: Known) -> str:
    """Return the known form of a name: itself, else its bare name; empty if neither is known."""
    return next((form for form in (name, bare_name(name)) if form in known), "")


def _of_json(text: str, known: Known) -> tuple[TextCall, ...]:
    """Parse a text that contains only calls as JSON; empty for any other text."""
    if not text.startswith(("{", "[")):
        return ()
    calls: list[TextCall] = []
    at = _skip_pattern(_BETWEEN, text, 0)
    while at < len(text):
        given, at = _object_at(text, at)
        several: Any = given.get("tool_calls") if given is not None else None
        if isinstance(several, list) and (
            inner := _of_json(canonical_json(cast("list[object]", several)), known)
        ):
            calls += inner
            at = _skip_pattern(_BETWEEN, text, at)
            continue
        call = _of_object(given, known) if given is not None else None
        if call is None:
            return ()
        calls.append(call)
        at = _skip_pattern(_BETWEEN, text, at)
    return tuple(calls)


def _of_object(fields: JsonObject, known: Known) -> TextCall | None:
    """Convert the object of a call; None if its name is unknown or it has no arguments."""
    fields = name_fields(fields)
    given: Any = fields.get("args")
    key = _known_name(str(fields.get("operation")), known)
    if isinstance(given, str):  # written as JSON inside JSON
        given, _ = _object_at(given.strip(), 0)
    if not key or not isinstance(given, dict):
        return None
    return TextCall(key, cast("JsonObject", given))


def _read_value(value: str, schema: Any) -> object:
    """Parse an argument between marks: as JSON if its schema is not a string, else literally."""
    kind = cast("JsonObject", schema).get("type") if isinstance(schema, dict) else "string"
    if kind != "string":
        try:
            return cast("object", json.loads(value))
        except (ValueError, RecursionError):
            pass  # validation reports what is wrong with it
    return value.removeprefix("\r").removeprefix("\n").removesuffix("\n").removesuffix("\r")
