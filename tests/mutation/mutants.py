"""Where a source can be broken so that a test should notice, and the broken source."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, cast

_SWAPS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}

#: Calls whose arguments say how much of a text is shown, or only describe a type.
_NOT_INSIDE: Final = frozenset(
    {"one_line", "clip_value", "Field", "TypeVar", "field", "ConfigDict"}
)
#: Statements of the developers' log.
_LOGS: Final = frozenset({"log", "logger", "logging"})
#: What must never be run in another way than it was written.
_DANGEROUS: Final = frozenset({"kill", "killpg"})
#: Words in the name of a number that tests cannot tell from another: how long, how much at once.
_ANY_VALUE: Final = ("timeout", "within", "deadline", "block", "chunk", "batch", "buffer")
_NEVER_FALSE: Final = frozenset({"AssertionError", "NotImplementedError"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One way to break one file. ``place`` is the number of the node, and of the part of it."""

    path: Path  # relative to the root of the repository
    line: int
    function: str  # the outermost that it is in, empty at the level of the module
    kind: str
    what: str
    place: tuple[int, int]
    kept: bool = False  # the function's result is kept for later calls

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.kind}: {self.what}"


def mutants_of(path: Path, source: str) -> list[Mutant]:
    """All of a file, in the order of the source."""
    return list(_Finder(path, source).found())


def some_of(mutants: list[Mutant], count: int, random: Random) -> list[Mutant]:
    """So many statements by chance, and of each one way to break it."""
    by_statement: defaultdict[tuple[Path, int], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_statement[mutant.path, mutant.line].append(mutant)
    places = sorted(by_statement)
    chosen = random.sample(places, min(count, len(places)))
    return [random.choice(by_statement[place]) for place in chosen]


def broken(mutant: Mutant, source: str) -> str:
    """The source with the mutation in it; comments are lost."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    node, part = nodes[mutant.place[0]], mutant.place[1]
    match mutant.kind, node:
        case "negate", ast.If() | ast.While() | ast.IfExp():
            node.test = _not(node.test)
        case "negate", ast.comprehension():
            node.ifs[part] = _not(node.ifs[part])
        case "negate", ast.match_case() if node.guard is not None:
            node.guard = _not(node.guard)
        case "compare", ast.Compare():
            node.ops[part] = _SWAPS[type(node.ops[part])]()
        case "and/or", ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case "constant", ast.Constant():
            node.value = _other(node.value)
        case "return", ast.Return():
            node.value = ast.Constant(None)
        case "drop", ast.stmt():
            _drop(nodes, node)
        case _:
            raise AssertionError(f"{mutant} fits no node")
    return ast.unparse(ast.fix_missing_locations(tree))


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _other(value: object) -> bool | int | float:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1 if abs(value) <= 10 else value // 2
    assert isinstance(value, float)
    return value + 0.5 if value <= 1.0 else value / 2


def _drop(nodes: list[ast.AST], statement: ast.stmt) -> None:
    for parent in nodes:
        for name in ("body", "orelse", "finalbody"):
            inside = getattr(parent, name, None)
            if isinstance(inside, list) and statement in inside:
                body = cast("list[ast.stmt]", inside)
                body[body.index(statement)] = ast.Pass()
                return
    raise AssertionError("a statement stands nowhere")


class _Finder:
    """Walks one module; what cannot matter, or only to a reader, is not walked into."""

    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._lines = source.splitlines()
        tree = ast.parse(source)
        self._tree = tree
        self._numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
        self._lengths = _lengths_in(tree)
        self._statement: ast.stmt | None = None
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self._names: list[str] = []  # of the classes and functions around

    def found(self) -> Iterator[Mutant]:
        """The mutants of the module."""
        for statement in self._tree.body:
            yield from self._in_statement(statement)

    # --- statements --------------------------------------------------------------------------

    def _in_statement(self, node: ast.stmt) -> Iterator[Mutant]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._in_function(node)
            case ast.ClassDef():
                if not any(_name(base) == "Protocol" for base in node.bases):
                    self._names.append(node.name)
                    for inner in node.body:
                        yield from self._in_statement(inner)
                    self._names.pop()
            case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.Global() | ast.Nonlocal():
                return
            case ast.If() if _name(node.test) == "TYPE_CHECKING":
                return
            case ast.If() if "platform" in _names_in(node.test):
                return  # tests run on one system
            case _ if _only_words(node) or _names_in(node) & _DANGEROUS:
                return
            case _:
                before, self._statement = self._statement, node
                yield from self._ways(node)
                yield from self._inside(node)
                self._statement = before

    def _in_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Mutant]:
        if node.name == "__repr__":
            return
        self._names.append(node.name)
        self._functions.append(node)
        for inner in node.body:
            yield from self._in_statement(inner)
        self._functions.pop()
        self._names.pop()

    def _ways(self, node: ast.stmt) -> Iterator[Mutant]:
        """How the statement itself can be broken."""
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
            yield self._mutant("negate", node.test, node)
        if not self._functions:
            return
        function = self._functions[-1]
        match node:
            case ast.Return(value=None) | ast.Continue() | ast.Break() | ast.Delete():
                yield self._mutant("drop", node, node)
            case ast.Return(value=value) if value is not None:
                if not (_is_empty(value) or _is_none(function.returns)):
                    yield self._mutant("return", node, node, f"None for {_short(value)}")
            case ast.Raise():
                if _raised(node) not in _NEVER_FALSE:
                    yield self._mutant("drop", node, node)
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
                yield self._mutant("drop", node, node)
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target, value=ast.expr()):
                # Without its first value no object works at all, which says nothing.
                first = function.name in ("__init__", "__post_init__")
                if isinstance(target, ast.Attribute | ast.Subscript) and not first:
                    yield self._mutant("drop", node, node)
            case _:
                pass

    # --- expressions -------------------------------------------------------------------------

    def _inside(self, node: ast.AST) -> Iterator[Mutant]:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_comment"):
                continue
            if isinstance(node, ast.Raise):
                continue  # the words of an error
            children = cast("list[object]", value) if isinstance(value, list) else [value]
            for child in children:
                if isinstance(child, ast.stmt):
                    yield from self._in_statement(child)
                elif isinstance(child, ast.AST):
                    yield from self._in_expression(child)

    def _in_expression(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Call() if _name(node.func) in _NOT_INSIDE:
                return
            case ast.keyword() if node.arg is not None and _any_value(node.arg):
                return
            case ast.Subscript() if _is_type(node):
                return
            case ast.keyword(arg="show"):
                return  # whether a footer shows a key; there is none
            case ast.IfExp():
                yield self._mutant("negate", node.test, node)
            case ast.comprehension():
                for part, test in enumerate(node.ifs):
                    yield self._mutant("negate", test, node, part=part)
            case ast.match_case() if node.guard is not None:
                yield self._mutant("negate", node.guard, node)
            case ast.Compare():
                for part, op in enumerate(node.ops):
                    other = _SWAPS[type(op)].__name__
                    what = f"{_short(node)} with {other}"
                    yield self._mutant("compare", node, node, what, part=part)
            case ast.BoolOp():
                yield self._mutant("and/or", node, node)
            case ast.Constant(value=bool() | int() | float()):
                if not self._tells_nothing():
                    what = f"{node.value} becomes {_other(node.value)}"
                    yield self._mutant("constant", node, node, what)
            case _:
                pass
        yield from self._inside(node)

    def _tells_nothing(self) -> bool:
        """Whether the number is one that a test cannot tell from another: seconds, buffers."""
        node = self._statement
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            return False
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        around = self._lines[max(node.lineno - 2, 0) : node.end_lineno]
        comments = " ".join(line.partition("#")[2] for line in around)
        said = comments.lower()
        name = _name(target)
        return _any_value(name) or name in self._lengths or "second" in said or "at once" in said

    def _mutant(
        self, kind: str, shown: ast.AST, node: ast.AST, what: str = "", *, part: int = 0
    ) -> Mutant:
        statement = self._statement
        assert statement is not None
        line = getattr(node, "lineno", getattr(shown, "lineno", statement.lineno))
        name = ".".join(self._names[: self._depth()])
        where = name if self._functions else ""
        place = self._numbers[id(node)], part
        kept = any("cache" in _name(by) for f in self._functions for by in f.decorator_list)
        return Mutant(self._path, line, where, kind, what or _short(shown), place, kept)

    def _depth(self) -> int:
        """How many of the names lead to the outermost function."""
        return len(self._names) - len(self._functions) + 1 if self._functions else 0


# --- looking at nodes ----------------------------------------------------------------------------


def _lengths_in(tree: ast.Module) -> set[str]:
    """Names of the module that are used for nothing but how much of a text is shown: as little to
    be told from another as the number itself in such a call.
    """
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    shown = {
        argument
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _name(call.func) in ("one_line", "clip_value")
        for argument in call.args[1:]
    }
    other = {node.id for node in used if isinstance(node.ctx, ast.Load) and node not in shown}
    private = {name.id for name in shown if isinstance(name, ast.Name) and name.id[:1] == "_"}
    return private - other


def _name(node: ast.AST | None) -> str:
    """The last name of ``a.b.c``, of what is called or of a subscript."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Call():
            return _name(node.func)
        case ast.Subscript() | ast.Starred():
            return _name(node.value)
        case _:
            return ""


def _names_in(node: ast.AST) -> set[str]:
    return {_name(inner) for inner in ast.walk(node) if isinstance(inner, ast.Name | ast.Attribute)}


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_empty(node: ast.expr) -> bool:
    """What is as false as None, to almost everyone who asks."""
    match node:
        case ast.Constant(value=value):
            return not value
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return True
        case _:
            return False


def _is_type(node: ast.Subscript) -> bool:
    """``Literal["x"]``, ``list[int]`` and the like: a name of a type begins with a big letter."""
    name = _name(node.value)
    builtin = name in {"dict", "frozenset", "list", "set", "tuple", "type"}
    return builtin or (name[:1].isupper() and not name.isupper())


def _raised(node: ast.Raise) -> str:
    return _name(node.exc)


def _any_value(name: str) -> bool:
    lowered = name.lower()
    return lowered.endswith("_s") or any(word in lowered for word in _ANY_VALUE)


def _only_words(node: ast.stmt) -> bool:
    """A docstring, a line of the log, or a declaration that only tools read."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _LOGS
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in ("__all__", "__slots__", "TYPE_CHECKING")
        case _:
            return False


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:69]}…"
