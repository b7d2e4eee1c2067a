"""Parses answers written without JSON into the value that JSON would have: XML elements, or lines
of Markdown or YAML with fields, lists, headings and tables.

Only for answers that are judged and never executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from typing import Final, cast

from duckflow_tui.llm.reply_json import NotStrict, convert_value, parse_exact
from duckflow_tui.state.base import JsonObject
from duckflow_tui.state.lines import split_bare_lines

_MOST: Final = 20_000  # characters of an answer that is read
_DEEPEST: Final = 20  # levels of lines and of elements
_HEADING: Final = 1_000  # by which a heading is further left than any line
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_RULE: Final = re.compile(r"\s*(?:-{3,}|\*{3,}|_{3,})\s*")
_ITEM: Final = re.compile(r"(?:[-*+•]\s+|・\s*|\d{1,3}[.)]\s+)")
#: A field: a name of a few words, perhaps in bold or numbered, and what stands behind its colon.
_FIELD: Final = re.compile(
    r"[*_`]*(?P<name>[\w][\w .#-]{0,40}?)[*_`]*\s*(?::[*_`]*(?:\s+|$)|：)(?P<value>.*)"
)
_CLAUSE_END: Final = re.compile(r"[\n,;|、。]|\.\s")
_CLAUSE_MARKS: Final = " \t\r-*•>#`"
_NUMBERED: Final = re.compile(r"(?<=\w) #?\d{1,3}$")
#: A field in brackets at the end of a line, such as "(priority: 1)".
_BESIDE: Final = re.compile(
    r"[(（](?P<name>[\w ]{1,20})\s*[:：]\s*(?P<value>[^()（）]{1,80})[)）]$"
)
_BLOCK_MARKS: Final = ("|", ">", "|-", ">-")  # of YAML, before a text on lines of its own
_NO_CELL: Final = ("", "-", "–", "—")


@dataclass(slots=True)
class _Node:
    """A line, with the lines indented below it. A list item has its text as a node below it.
    ``name`` is empty unless the line is a field.
    """

    indent: int
    name: str = ""
    text: str = ""
    is_item: bool = False
    rows: list[JsonObject] = field(default_factory=list[JsonObject])  # of a table
    below: list[_Node] = field(default_factory=list["_Node"])


def read_lines(text: str) -> object:
    """Parse lines: fields and headings become an object, items and tables a list, other lines a
    text. None for more than 20,000 characters.
    """
    if len(text) > _MOST:
        return None
    root = _Node(-2 * _HEADING)
    opened = [root]
    for node in _read_nodes(split_bare_lines(text.expandtabs(4))):
        while not _belongs_below(node, opened[-1]):
            opened.pop()
        opened[-1].below.append(node)
        if len(opened) < _DEEPEST:
            opened.append(node)
    if len(root.below) == 1 and root.below[0].indent < 0:  # one heading over all of it
        (heading,) = root.below
        inner = _value_of(heading.below)
        if isinstance(inner, dict):
            return {"title": heading.text or heading.name, **cast("JsonObject", inner)}
    return _value_of(root.below)


def read_fields(text: str) -> list[JsonObject]:
    """Return each different ``name: value`` among the lines and clauses of a text as an object."""
    clauses = dict.fromkeys(clause.strip(_CLAUSE_MARKS) for clause in _CLAUSE_END.split(text))
    nodes = (_read_field(0, clause) for clause in clauses)
    return [{node.name: _read_scalar(node.text)} for node in nodes if node.name]


def _belongs_below(node: _Node, above: _Node) -> bool:
    """Whether a line is part of the line above it. List items may have the same indent as their
    field.
    """
    if node.indent == above.indent and above.name and not above.text:
        return node.is_item or bool(node.rows)
    return node.indent > above.indent


def _read_nodes(lines: Sequence[str]) -> Iterator[_Node]:
    """Convert lines to nodes: two for an item, one for a table. Fences, rules and blank lines are
    left out.
    """
    table: list[str] = []
    for line in [*lines, ""]:
        if line.lstrip().startswith("|"):
            table.append(line)
            continue
        if table:
            yield _Node(0, rows=_read_table(table))
            table = []
        if not line.strip() or _FENCE.match(line) or _RULE.fullmatch(line):
            continue
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if text.startswith("#") and (title := text.lstrip("#")).startswith(" "):
            level = len(text) - len(title)
            yield _read_field(level - _HEADING, title.strip(), is_heading=True)
            continue
        while item := _ITEM.match(text):
            yield _Node(indent, is_item=True)
            text, indent = text[item.end() :], indent + item.end()
        beside = _BESIDE.search(text)
        yield _read_field(indent, text[: beside.start()] if beside else text)
        if beside:
            yield _Node(indent, beside["name"].strip(), beside["value"].strip())


def _read_field(indent: int, text: str, *, is_heading: bool = False) -> _Node:
    """Make the node of a line: a field if it has a name and a colon; a heading is always a
    field.
    """
    if found := _FIELD.fullmatch(text.strip()):
        name, value = _NUMBERED.sub("", found["name"].strip()), found["value"].strip()
        return _Node(indent, name, "" if value in _BLOCK_MARKS else value)
    return _Node(indent, _strip_marks(text)) if is_heading else _Node(indent, text=text)


def _read_table(lines: Sequence[str]) -> list[JsonObject]:
    """Return the rows of a table as objects by column name, without empty cells."""
    rows = [[_strip_marks(cell) for cell in line.strip().strip("|").split("|")] for line in lines]
    head, *others = rows
    found = [
        {name: cell for name, cell in zip(head, row, strict=False) if cell not in _NO_CELL}
        for row in others
        if any(cell.strip(":-") for cell in row)
    ]
    return [row for row in found if row]


def _value_of(nodes: Sequence[_Node], beside: JsonObject | None = None) -> object:
    """Return the value of nodes on one level. Fields among list items are added to ``beside``, the
    fields around the list; without ``beside``, the list is added to them under an empty name.
    """
    items: list[object] = []
    records: list[JsonObject] = [{}]
    texts: list[str] = []
    for node in nodes:
        if node.is_item:
            items.append(_item_of(node.below))
        elif node.rows:
            items += node.rows
        elif node.name:
            if node.name in records[-1]:  # the next record begins where a name comes again
                records.append({})
            value = _read_scalar(node.text)
            if node.below:
                inner = _value_of(node.below, records[-1])
                value = [value, inner] if node.text else inner
            records[-1][node.name] = value
        else:
            texts.append(_strip_marks(node.text))
    fields = records[-1]
    if len(records) > 1:
        return [*items, *records]
    if not items:
        return fields or "\n".join(texts)
    if fields and beside is None:
        return {**fields, "": items}
    if beside is not None:
        beside |= {name: value for name, value in fields.items() if name not in beside}
    return items


def _item_of(nodes: Sequence[_Node]) -> object:
    """Return the value of a list item: its text alone, or an object with its text as ``title``."""
    text = _strip_marks(nodes[0].text) if nodes and not nodes[0].name else ""
    below = _value_of(nodes[1:] if text else nodes)
    if not text or not below:
        return text or below
    if isinstance(below, dict):
        return {"title": text, **cast("JsonObject", below)}
    return {"title": text, "details": below}


def _read_scalar(text: str) -> object:
    """Parse the text after a colon: a list or object in brackets, else a text without quotes and
    marks.
    """
    text = text.strip()
    if text.startswith(("[", "{")):
        written, end = convert_value(text, 0, is_loose=True)
        if written and end == len(text):
            try:
                return parse_exact(written)
            except NotStrict:
                pass
    return _strip_marks(text)


def _strip_marks(text: str) -> str:
    """Remove quotes, backticks and emphasis that enclose a whole text."""
    text = text.strip()
    for mark in ("**", "__", "`", '"', "'"):
        inner = text.removeprefix(mark).removesuffix(mark)
        if len(inner) == len(text) - 2 * len(mark) and mark not in inner:
            text = inner
    return text


# --- elements -------------------------------------------------------------------------------------


def read_elements(text: str) -> object:
    """Parse the XML elements in an answer, with text around them, as an object; None if none has an
    end, and for more than 20,000 characters. Tags of names without an end are text.
    """
    if len(text) > _MOST:
        return None
    text = _VERBATIM.sub(lambda part: escape(part[1]), text)
    ended = {tag["name"].lower() for tag in _TAG.finditer(text) if tag["end"] or tag["empty"]}
    opened = [_Element("")]
    at = 0
    for tag in _TAG.finditer(text):
        if (name := tag["name"].lower()) not in ended:
            continue
        opened[-1].text += text[at : tag.start()]
        at = tag.end()
        if not tag["end"] and len(opened) < _DEEPEST:
            opened.append(_Element(name))
            for key, value in _ATTRIBUTE.findall(tag[0]):
                opened[-1].inner.append((key.lower(), unescape(value)))
        if (tag["end"] or tag["empty"]) and any(element.name == name for element in opened):
            while opened[-1].name != name:  # what has no end belongs to the element around it
                lost = opened.pop()
                opened[-1].text += lost.text
                opened[-1].inner += lost.inner
            closed = opened.pop()
            opened[-1].inner.append((name, _value_of_element(closed)))
    return _value_of_element(opened[0]) if opened[0].inner else None


_TAG: Final = re.compile(r"<(?P<end>/?)(?P<name>[^\W\d][\w.-]*)(?:\s[^<>]*?)?(?P<empty>/?)>")
_ATTRIBUTE: Final = re.compile(r"(?<![\w-])([\w-]+)\s*=\s*[\"']([^\"']*)[\"']")
_VERBATIM: Final = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.S)


@dataclass(slots=True)
class _Element:
    """An element as far as it was read; ``inner`` are its attributes and child elements, with their
    names in lower case.
    """

    name: str
    text: str = ""
    inner: list[tuple[str, object]] = field(default_factory=list[tuple[str, object]])


def _value_of_element(element: _Element) -> object:
    """Return the value of an element: its text, an object of its attributes and children, or a list
    if all children have one name and are several, or that name is the singular of the element's.
    """
    text, inner = unescape(element.text).strip(), element.inner
    if not inner:
        return text
    first = inner[0][0]
    is_plural = first != element.name and element.name.startswith(first)
    if all(name == first for name, _ in inner) and (len(inner) > 1 or is_plural):
        return [value for _, value in inner]
    found: JsonObject = {"text": text} if text and element.name else {}
    for name, value in inner:
        before = found.get(name)
        many = cast("list[object]", before) if isinstance(before, list) else [before]
        found[name] = value if before is None else [*many, value]
    return found
