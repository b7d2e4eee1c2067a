"""Parses what a command line would run (R04…R06): its plain commands, or the reason why it is not
plain.

Two readers that know nothing of each other must agree on every word: the grammar of tree-sitter
and the lexer of ``shlex``. What one of them takes otherwise is not plain.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING, Final, NamedTuple

from duckflow_tui.safety.names import words_of

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LINE: Final = 8_000  # characters; a longer line is not read
MAX_PARTS: Final = 50  # commands in one line
MAX_NODES: Final = 10_000  # of the tree, looked at
_MAX_DEPTH: Final = 5  # substitutions in substitutions
_JOINERS: Final = frozenset({"&&", "||", ";", "|"})
_INTO: Final = frozenset({"program", "list", "pipeline", "redirected_statement"})
_HARMLESS: Final = (
    [">", "/dev/null"],
    ["1", ">", "/dev/null"],
    ["2", ">", "/dev/null"],
    ["2", ">&", "1"],
)
#: What stands between words in the code of a shell or another language.
_BETWEEN_WORDS: Final = re.compile(r"[\s;&|()<>\[\]{},`$\"']+")
_QUOTES: Final = re.compile(r"[\"'\\]")
_WORDS: Final = frozenset({"word", "number", "string", "raw_string", "concatenation"})

#: Nodes of the grammar that make a line more than plain commands, and what they are called here.
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

#: Words with which bash begins something other than a plain command; the grammar takes some of
#: them for programs.
_RESERVED: Final = words_of(
    "! { } [[ ]] case coproc do done elif else esac fi for function if in select then time "
    "until while"
)


#: Commands of bash that set variables, or fill in what their words hold: PATH is one of them.
_SETS: Final = words_of("getopts let mapfile printf read readarray test wait")


class SimpleCommand(NamedTuple):
    """One plain command, and what joins it to the one before: ``&&``, ``||``, ``;``, ``|``."""

    argv: tuple[str, ...]
    joiner: str = ""  # empty for the first

    @property
    def text(self) -> str:
        """The command as a line that means the same."""
        return shlex.join(self.argv)


def iter_pieces(word: str) -> Iterator[str]:
    """A word, then what a shell or another language could read out of it: ``"cat .env"`` gives
    itself, ``cat`` and ``.env``; quotes part words, or join them as in ``g''it``.
    """
    yield word
    pieces = _BETWEEN_WORDS.split(word)
    if len(pieces) > 1:
        yield from filter(None, (*pieces, *_BETWEEN_WORDS.split(_QUOTES.sub("", word))))


@dataclass(frozen=True, slots=True)
class CommandLine:
    """A line as read. ``parts`` are there if and only if ``reason`` is empty: then it is plain.

    ``found`` are the words of each command anywhere in it, also inside of a substitution, as far
    as they are known; ``readable`` says whether these are all. ``files``: those of its redirects.
    """

    text: str
    parts: tuple[SimpleCommand, ...] = ()
    reason: str = ""
    found: tuple[tuple[str, ...], ...] = ()
    files: tuple[str, ...] = ()
    readable: bool = False


class _NotPlain(Exception):
    """The line is more than plain commands; ``str()`` is the reason's code."""


@lru_cache(maxsize=64)
def read_command(text: str) -> CommandLine:
    """Read a command line. Never raises: what cannot be read has a reason and no parts (R06).

    Reasons: ``empty``, ``too_long``, ``hidden``, ``newline``, ``no_parser``, ``unparsed``,
    ``too_many``, ``expansion``, ``assignment``, ``redirect``, ``background``, ``comment``,
    ``compound``.
    """
    if not text.strip():
        return CommandLine(text, reason="empty")
    if len(text) > MAX_LINE:  # R06d
        return CommandLine(text, reason="too_long")
    if any(_is_hidden(char) for char in text):
        return CommandLine(text, reason="hidden")
    # The grammar's scanner has been seen to crash the process on other characters, so it is given
    # letters in their place. A name that they then seem to assign to is refused, as is any.
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
    """A text with letters and digits of ASCII in place of every other character, and back."""

    def __init__(self, text: str) -> None:
        # Quotes and backslashes go while the text is read: without them too it holds no mark.
        # The marks are more than a line has places for one, and short, so that it stays a line.
        bare = re.sub("[^a-z]", "", text)
        mark = next(m for m in map("".join, product("zqxjkvwy", repeat=5)) if m not in bare)
        self._coded = re.compile(f"{mark}([0-9a-f]{{6}})")
        self.written = "".join(c if c.isascii() else f"{mark}{ord(c):06x}" for c in text)

    def restore_words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words as they were."""
        return tuple(self._coded.sub(lambda found: chr(int(found[1], 16)), w) for w in words)


def _parse_line(text: str) -> CommandLine:
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
    """The grammar, loaded with the first command; None where it cannot be had."""
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        return None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _is_hidden(char: str) -> bool:
    """Characters that are not what they look like; line ends and tabs are judged elsewhere."""
    if char in "\n\t":
        return False
    return unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs", "Co")


def _iter_nodes(root: Node) -> Iterator[Node]:
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _node_text(node: Node) -> str:
    return (node.text or b"").decode()


class _Plain:
    """Reads a tree as plain commands; anything else raises _NotPlain."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts: list[SimpleCommand] = []
        self._tokens: list[str] = []  # as a lexer has to see them
        self._joiner = ""
        self._argv: list[str] = []

    def read_commands(self, root: Node) -> tuple[SimpleCommand, ...]:
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
        value = _word_value(node)
        if not self._argv and "=" in value:  # R04b
            raise _NotPlain("assignment")
        self._argv.append(value)
        self._tokens.append(value)

    def _add_operator(self, node: Node) -> None:
        self._end_command()
        if not self._parts or self._joiner:
            raise _NotPlain("unparsed")
        self._joiner = node.type
        self._tokens.append(node.type)

    def _check_redirect(self, node: Node) -> None:
        """``2>&1``, and ``>/dev/null`` of either stream; nothing else (R04)."""
        words = [_node_text(child) for child in node.children]
        self._tokens += words
        if words not in _HARMLESS:
            raise _NotPlain("redirect")  # R04a

    def _end_command(self) -> None:
        """The end of a command."""
        if not self._argv:
            return
        if self._argv[0] in _RESERVED:
            raise _NotPlain("compound")
        if not self._argv[0] or (self._parts and not self._joiner):
            raise _NotPlain("unparsed")
        if self._argv[0] in _SETS and _sets_variable(self._argv):  # R04e
            raise _NotPlain("assignment")
        self._parts.append(SimpleCommand(tuple(self._argv), self._joiner))
        self._argv, self._joiner = [], ""
        if len(self._parts) > MAX_PARTS:  # R06e
            raise _NotPlain("too_many")


def _sets_variable(argv: list[str]) -> bool:
    """Whether a command of bash sets a variable, or looks one up by a name that may hold code:
    ``test -v 'a[$(x)]'`` runs ``x``.
    """
    program, *words = argv
    match program:
        case "printf":
            return bool(words) and words[0].startswith("-v")
        case "test":
            return not {"-v", "-R"}.isdisjoint(words)
        case _:
            return True


def _split_tokens(text: str) -> list[str]:
    """Its tokens, whatever the grammar skipped among them; none where it cannot be split."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return []


def _word_value(node: Node) -> str:
    """The word that bash would pass on; raises _NotPlain where bash would make it another one."""
    text = _node_text(node)
    match node.type:
        case "raw_string":
            return text[1:-1]
        case "string":
            return _quoted_value(text[1:-1])
        case "concatenation":
            if "~" in text:  # what stands before it may be in another piece
                raise _NotPlain("expansion")
            return "".join(_word_value(child) for child in node.children)
        case "word" | "number":
            return _bare_value(text)
        case kind:
            raise _NotPlain(_NOT_PLAIN.get(kind, "unparsed"))


def _quoted_value(text: str) -> str:
    """What bash makes of text between double quotes; raises _NotPlain where it expands it."""
    if "$" in text or "`" in text:
        raise _NotPlain("expansion")
    return re.sub(r'\\(["\\])', r"\1", text)


def _bare_value(text: str) -> str:
    """What bash makes of a word without quotes; raises _NotPlain where it expands it."""
    if text.startswith("~") or "=~" in text or ":~" in text:
        raise _NotPlain("expansion")
    made: list[str] = []
    characters = iter(text)
    for char in characters:
        if char == "\\":
            made.append(next(characters, ""))  # where none follows, the lexer reads no line
        elif char in "*?[{}$`":  # R04d
            raise _NotPlain("expansion")
        elif char in "'\"|&;<>()#!^" and not (made and char in "#!^"):
            raise _NotPlain("unparsed")
        else:
            made.append(char)
    return "".join(made)


# --- the commands of a line that is not plain -----------------------------------------------------


def _outermost_commands(root: Node) -> Iterator[Node]:
    """Commands in the order of the text, those inside of another one's words left out."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "command":
            yield node
        else:
            stack.extend(reversed(node.children))


def _find_commands(node: Node, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """The words of each command below a node, and of those inside of its words; raises _NotPlain
    where there are too many levels of them: what is not seen could be what a rule denies (R06).
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
    """A word as far as it can be told: quotes gone, expansions as they stand."""
    if node.type == "command_name" and node.children:
        return _approximate_word(node.children[0])
    try:
        return _word_value(node)
    except _NotPlain:
        return _node_text(node).replace('"', "").replace("'", "").replace("\\", "")
