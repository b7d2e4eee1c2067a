"""Parse a command line into plain commands, or into the reason why it is not plain (R04…R06).

Two independent parsers must agree on every word: the grammar of tree-sitter and the lexer of
``shlex``. A line on which they differ is not plain.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING, Final, NamedTuple

from duckflow_tui.safety.names import words_of
from duckflow_tui.safety.safe_text import is_safe

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LINE: Final = 8_000  # characters; a longer line is not read
MAX_PARTS: Final = 50  # commands in one line
MAX_NODES: Final = 10_000  # of the syntax tree
_MAX_DEPTH: Final = 5  # substitutions in substitutions
_JOINERS: Final = frozenset({"&&", "||", ";", "|"})
_INTO: Final = frozenset({"program", "list", "pipeline", "redirected_statement"})
_HARMLESS: Final = (
    [">", "/dev/null"],
    ["1", ">", "/dev/null"],
    ["2", ">", "/dev/null"],
    ["2", ">&", "1"],
)
#: Separators of words in the code of a shell or another language.
_BETWEEN_WORDS: Final = re.compile(r"[\s;&|()<>\[\]{},`$\"']+")
_QUOTES: Final = re.compile(r"[\"'\\]")
_WORDS: Final = frozenset({"word", "number", "string", "raw_string", "concatenation"})

#: Nodes of the grammar that do not occur in plain commands, and the reasons they give.
_NOT_PLAIN: Final = {
    "&": "background",
    "|&": "redirect",
    "comment": "comment",
    **dict.fromkeys(("file_redirect", "heredoc_redirect", "herestring_redirect"), "redirect"),
    **dict.fromkeys(
        words_of("variable_assignment variable_assignments declaration_command unset_command"),
        "assignment",
    ),
    **dict.fromkeys(
        words_of(
            "command_substitution process_substitution simple_expansion expansion "
            "arithmetic_expansion brace_expression ansi_c_string translated_string extglob_pattern"
        ),
        "expansion",
    ),
}

#: Reserved words of bash, which begin something other than a plain command; the grammar parses
#: some of them as programs.
_RESERVED: Final = words_of(
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time "
    "until while"
)


class SimpleCommand(NamedTuple):
    """One plain command and the operator that joins it to the one before: ``&&``, ``||``, ``;``,
    ``|``.
    """

    argv: tuple[str, ...]
    joiner: str = ""  # empty for the first

    @property
    def text(self) -> str:
        """The command quoted for a shell."""
        return shlex.join(self.argv)


def iter_pieces(word: str) -> Iterator[str]:
    """Yield a word, then the words that a shell or another language could read inside it: ``"cat
    .env"`` gives itself, ``cat`` and ``.env``. Quotes are read both as separators and as
    removed, as in ``g''it``.
    """
    yield word
    pieces = _BETWEEN_WORDS.split(word)
    if len(pieces) > 1:
        yield from filter(None, (*pieces, *_BETWEEN_WORDS.split(_QUOTES.sub("", word))))


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A parsed line. It is plain if and only if ``reason`` is empty; only then has it ``parts``.

    ``found`` holds the words of every command in the line, also inside substitutions, with
    expansions unresolved; ``readable`` tells whether ``found`` is complete. ``files`` are the
    targets of its redirects.
    """

    text: str
    parts: tuple[SimpleCommand, ...] = ()
    reason: str = ""
    found: tuple[tuple[str, ...], ...] = ()
    files: tuple[str, ...] = ()
    readable: bool = False


class _NotPlain(Exception):
    """The line is not made of plain commands only; ``str()`` is the code of the reason."""


@lru_cache(maxsize=64)
def read_command(text: str) -> CommandLine:
    """Parse a command line. Never raises: a line that is not plain has a reason and no parts (R06).

    Reasons: ``empty``, ``too_long``, ``hidden``, ``newline``, ``no_parser``, ``unparsed``,
    ``too_many``, ``expansion``, ``assignment``, ``redirect``, ``background``, ``comment``,
    ``compound``.
    """
    if not text.strip():
        return CommandLine(text, reason="empty")
    if len(text) > MAX_LINE:  # R06d
        return CommandLine(text, reason="too_long")
    if not is_safe(text.replace("\t", " ")):
        return CommandLine(text, reason="hidden")
    # The grammar's scanner can crash the process on non-ASCII characters, so they are encoded as
    # letters. An assignment to a name made of them is refused like any other.
    letters = _Letters(text)
    line = _parse_line(letters.written)
    return CommandLine(
        text,
        tuple(SimpleCommand(letters.restore_words(part.argv), part.joiner) for part in line.parts),
        line.reason,
        tuple(map(letters.restore_words, line.found)),
        letters.restore_words(line.files),
        line.readable,
    )


class _Letters:
    """A text in which ASCII letters and digits encode every non-ASCII character, and the
    way back.
    """

    def __init__(self, text: str) -> None:
        """Encode ``text`` into ``written``."""
        # Quotes and backslashes vanish in parsing; the mark must not occur without them either.
        # There are more marks than places in a line; they are short, so that the line stays short.
        bare = re.sub("[^a-z]", "", text)
        mark = next(m for m in map("".join, product("zqxjkvwy", repeat=5)) if m not in bare)
        self._coded = re.compile(f"{mark}([0-9a-f]{{6}})")
        self.written = "".join(c if c.isascii() else f"{mark}{ord(c):06x}" for c in text)

    def restore_words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Decode the words to their original characters."""
        return tuple(self._coded.sub(lambda found: chr(int(found[1], 16)), w) for w in words)


def _parse_line(text: str) -> CommandLine:
    """Parse an ASCII line with tree-sitter; never raises."""
    parser = _load_parser()
    if parser is None:
        return CommandLine(text, reason="no_parser")
    root = parser.parse(text.encode()).root_node
    nodes = list(islice(_iter_nodes(root), MAX_NODES))
    if root.has_error or len(nodes) >= MAX_NODES:
        return CommandLine(text, reason="too_many" if len(nodes) >= MAX_NODES else "unparsed")
    try:
        found = tuple(_find_commands(root))
    except _NotPlain as reason:
        return CommandLine(text, reason=str(reason))
    files = tuple(
        _approximate_word(node.children[-1]) for node in nodes if node.type == "file_redirect"
    )
    try:
        parts = _Plain(text).read_commands(root)
    except _NotPlain as reason:
        return CommandLine(text, (), str(reason), found, files, readable=True)
    return CommandLine(text, parts, "", found, files, readable=True)


@cache
def _load_parser() -> Parser | None:
    """Return the bash parser, loaded once at the first call; None where tree-sitter is not
    installed.
    """
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        return None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _iter_nodes(root: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it, in the order of the text."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _node_text(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode()


class _Plain:
    """Reads a syntax tree as a list of plain commands; raises _NotPlain for anything else."""

    def __init__(self, text: str) -> None:
        """``text`` is the line that the tree was parsed from."""
        self._text = text
        self._parts: list[SimpleCommand] = []
        self._tokens: list[str] = []  # that ``shlex`` must find too
        self._joiner = ""
        self._argv: list[str] = []

    def read_commands(self, root: Node) -> tuple[SimpleCommand, ...]:
        """Return the commands of the tree. Raises _NotPlain, also where ``shlex`` splits the line
        into other tokens. Call once for each object.
        """
        if "\n" in self._text:  # R04c
            raise _NotPlain("newline")
        self._walk_node(root)
        self._end_command()
        if not self._parts:
            raise _NotPlain("unparsed")
        if _split_tokens(self._text) != self._tokens:  # R04f
            raise _NotPlain("unparsed")
        return tuple(self._parts)

    def _walk_node(self, node: Node) -> None:
        """Collect commands, operators and words from a node and those below it."""
        stack = [node]
        while stack:
            node = stack.pop()
            if node.type in _INTO:
                stack.extend(reversed(node.children))
            elif node.type == "command":
                stack.extend(reversed(node.children))
                self._end_command()
            elif node.type == "command_name":
                stack.extend(reversed(node.children))
            elif node.type == "file_redirect":
                self._check_redirect(node)
            elif node.type in _JOINERS:
                self._add_operator(node)
            elif node.type in _WORDS:
                self._add_argument(node)
            else:
                raise _NotPlain(_NOT_PLAIN.get(node.type, "compound"))

    def _add_argument(self, node: Node) -> None:
        """Add a word to the current command; raises _NotPlain where it is an assignment or is
        expanded.
        """
        value = _word_value(node)
        if not self._argv and "=" in value:  # R04b
            raise _NotPlain("assignment")
        self._argv.append(value)
        self._tokens.append(value)

    def _add_operator(self, node: Node) -> None:
        """End the current command and note the operator that joins the next one to it."""
        self._end_command()
        if not self._parts or self._joiner:
            raise _NotPlain("unparsed")
        self._joiner = node.type
        self._tokens.append(node.type)

    def _check_redirect(self, node: Node) -> None:
        """Note the tokens of a redirect; raise _NotPlain unless it is ``2>&1`` or ``>/dev/null`` of
        stdout or stderr (R04).
        """
        words = [_node_text(child) for child in node.children]
        self._tokens += words
        if words not in _HARMLESS:
            raise _NotPlain("redirect")  # R04a

    def _end_command(self) -> None:
        """Add the collected words to the commands, if there are any; raises _NotPlain where they
        begin with a reserved word of bash or are too many.
        """
        if not self._argv:
            return
        if self._argv[0] in _RESERVED:
            raise _NotPlain("compound")
        if not self._argv[0] or (self._parts and not self._joiner):
            raise _NotPlain("unparsed")
        self._parts.append(SimpleCommand(tuple(self._argv), self._joiner))
        self._argv, self._joiner = [], ""
        if len(self._parts) > MAX_PARTS:  # R06e
            raise _NotPlain("too_many")


def _split_tokens(text: str) -> list[str]:
    """Split a text into tokens by ``shlex``, without comments; return none where it cannot be
    split.
    """
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return []


def _word_value(node: Node) -> str:
    """Return the value that bash passes to the program for a word; raises _NotPlain where bash
    would expand it or it cannot be parsed.
    """
    text = _node_text(node)
    match node.type:
        case "raw_string":
            return text[1:-1]
        case "string":
            return _quoted_value(text[1:-1])
        case "concatenation":
            if "~" in text:  # the text before it may be in another piece
                raise _NotPlain("expansion")
            return "".join(_word_value(child) for child in node.children)
        case "word" | "number":
            return _bare_value(text)
        case kind:
            raise _NotPlain(_NOT_PLAIN.get(kind, "unparsed"))


def _quoted_value(text: str) -> str:
    """Return the value of a text between double quotes; raises _NotPlain where bash would expand
    it.
    """
    if "$" in text or "`" in text:
        raise _NotPlain("expansion")
    return re.sub(r'\\(["\\])', r"\1", text)


def _bare_value(text: str) -> str:
    """Return the value of a word without quotes; raises _NotPlain where bash would expand it or it
    cannot be parsed.
    """
    if text.startswith("~") or "=~" in text or ":~" in text:
        raise _NotPlain("expansion")
    made: list[str] = []
    characters = iter(text)
    for char in characters:
        if char == "\\":
            made.append(next(characters, ""))  # a backslash at the end is refused by ``shlex``
        elif char in "*?[{}$`":  # R04d
            raise _NotPlain("expansion")
        elif char in "'\"|&;<>()#!^" and not (made and char in "#!^"):
            raise _NotPlain("unparsed")
        else:
            made.append(char)
    return "".join(made)


# --- the commands of a line that is not plain -----------------------------------------------------


def _outermost_commands(root: Node) -> Iterator[Node]:
    """Yield the commands below a node in the order of the text, without those inside another
    command.
    """
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "command":
            yield node
        else:
            stack.extend(reversed(node.children))


def _find_commands(node: Node, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command below a node, also inside other commands' words, without
    assignments and redirects. Raises _NotPlain where substitutions are nested too deep: a hidden
    command could be one that a rule denies (R06).
    """
    for command in _outermost_commands(node):
        if depth > _MAX_DEPTH:
            raise _NotPlain("too_many")
        yield tuple(
            _approximate_word(child)
            for child in command.children
            if child.type not in ("variable_assignment", "file_redirect")
        )
        for child in command.children:
            yield from _find_commands(child, depth + 1)


def _approximate_word(node: Node) -> str:
    """Return the value of a word; where bash would expand it, its text without quotes and
    backslashes.
    """
    if node.type == "command_name" and node.children:
        return _approximate_word(node.children[0])
    try:
        return _word_value(node)
    except _NotPlain:
        return _node_text(node).replace('"', "").replace("'", "").replace("\\", "")
