"""Print the figures that say how large and how readable the repository is.

``python tests/figures.py`` prints totals; ``python tests/figures.py --list`` also names every
function whose name is one word and every docstring that begins badly.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "duckflow_tui"
#: The sample project of the demo is data, not source.
_DATA: Final = "workspace"

#: Names that one word says well.
PLAIN_WORDS: Final = frozenset(("apply", "run", "compose", "render", "main"))
BAD_BEGINNINGS: Final = ("What ", "That ", "Whatever ")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.Module | ast.ClassDef | Function


def list_sources(folder: Path) -> list[Path]:
    """Python files below a folder, without the demo's sample project."""
    return sorted(p for p in folder.rglob("*.py") if _DATA not in p.relative_to(folder).parts)


def count_lines(paths: list[Path]) -> tuple[int, int]:
    """Return the number of all lines, and of lines of code as cloc counts them: without blank
    lines, comments and docstrings.
    """
    total = code = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        total += len(lines)
        apart: set[int] = set()
        for node in iter_definitions(path):
            if ast.get_docstring(node, clean=False) is not None:
                first = node.body[0]
                apart.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        code += sum(
            number not in apart and bool(line.strip()) and line.strip()[0] != "#"
            for number, line in enumerate(lines, 1)
        )
    return total, code


def iter_definitions(path: Path) -> Iterator[Definition]:
    """The module itself, its classes and its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_one_word(function: Function) -> bool:
    """Whether a function's name is a single word that is not a plain verb of the language."""
    name = function.name.strip("_")
    overrides = any(ast.unparse(mark).endswith("override") for mark in function.decorator_list)
    return (
        "_" not in name
        and name not in PLAIN_WORDS
        and not overrides
        and not (function.name.startswith("__") and function.name.endswith("__"))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name what is counted")
    parser.add_argument("room", nargs="?", help="only this folder of the package, such as work")
    options = parser.parse_args()
    folder = PACKAGE / options.room if options.room else PACKAGE
    sources = list_sources(folder)
    total, code = count_lines(sources)
    print(f"source           {total:7,} lines, {code:,} of code, {len(sources)} modules")
    if not options.room:
        total, code = count_lines(list_sources(ROOT / "tests"))
        print(f"tests            {total:7,} lines, {code:,} of code")
        for room in sorted(path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()):
            print(f"  {room.name:15}{count_lines(list_sources(room))[0]:7,}")

    functions = one_word = docstrings = 0
    bad: list[str] = []
    short: list[str] = []
    for path in sources:
        for node in iter_definitions(path):
            where = f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.startswith("__") and node.name.endswith("__"):
                    continue
                functions += 1
                if is_one_word(node):
                    one_word += 1
                    short.append(f"{where} {node.name}")
            text = ast.get_docstring(node)
            if text:
                docstrings += 1
                if text.startswith(BAD_BEGINNINGS):
                    bad.append(f"{where} {text.splitlines()[0]}")
    share = 100 * one_word / max(functions, 1)
    print(f"functions        {functions:7,}, {one_word:,} with a name of one word ({share:.0f} %)")
    print(f"docstrings       {docstrings:7,}, {len(bad)} begin with What, That or Whatever")
    if not options.room:
        words = [count_file_lines(p) for p in (PACKAGE / "words" / "en").glob("*.toml")]
        print(f"words            {sum(words):7,} lines a language")
        print(f"keys             {count_keys():7,}")
        for name in ("README.md", "README.ja.md"):
            text = (ROOT / name).read_text(encoding="utf-8")
            print(
                f"{name:16} {len(text.splitlines()):7,} lines, {len(text.encode()) / 1024:.1f} KB"
            )
        print(f"texts for models {len(list_model_texts()):7,} written in code, at most")
    if options.list:
        print("\n".join(["", "names of one word", *short, "", "docstrings", *bad]))
        print("\n".join(["", "texts for models", *list_model_texts()]))


def count_file_lines(path: Path) -> int:
    """Lines of a text file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def count_keys() -> int:
    """Rows of the table of keys, which F1 and the manual show."""
    from duckflow_tui.ui.bindings import KEYS

    return len(KEYS)


#: Rooms from which a text in code can reach a model only as a result, a reason or a note.
_TELLING_ROOMS: Final = ("tools", "work")
#: What is told to a model elsewhere: the text is the first argument of these, or such a keyword.
_TOLD_BY: Final = ("ToldError", "ToolFault", "PlanProblem", "NotStrict")
_TOLD_AS: Final = ("for_model", "problems")
#: Descriptions of operations and settings stand beside what they describe, and logs are for people.
_BESIDE: Final = ("summary", "description", "names", "args")
_LOGS: Final = ("log_line", "debug", "info", "warning", "exception", "add_argument")
#: An error of these is a fault of the program, which nobody but its developers reads.
_FAULTS: Final = ("StateError", "AssertionError", "RuntimeError", "LookupError")
_WORD: Final = re.compile(r"[A-Za-z']{2,}")
_LONG: Final = 4  # words that make a sentence of a text in a telling room


def list_model_texts(rooms: Sequence[str] = _TELLING_ROOMS) -> list[str]:
    """Where code writes a sentence that a model reads, in place of a section of prompts/: in
    ``rooms``, which tell a model results and reasons, any text of four words; elsewhere errors
    that models are told, and ``for_model=``. Names of sections are no sentences, patterns neither.
    """
    found: list[str] = []
    for path in list_sources(PACKAGE):
        inside = path.relative_to(PACKAGE)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if inside.parts[0] in rooms:
            texts = [text for text in iter_texts(tree) if is_sentence(text, _LONG)]
        else:
            texts = [text for text in iter_told(tree) if is_sentence(text, 2)]
        found += [f"{inside}:{text.lineno}" for text in texts]
    return found


def iter_texts(tree: ast.AST) -> Iterator[ast.expr]:
    """Literal texts, but for docstrings, descriptions of operations, logs and faults."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.keyword) and node.arg in _BESIDE:
            continue
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in (*_LOGS, *_FAULTS, "compile", "Field", "_make_operation"):
                continue
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            yield node
        else:
            yield from iter_texts(node)


def iter_told(tree: ast.AST) -> Iterator[ast.expr]:
    """The expressions that name what a model is told of an error or in a message."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in _TOLD_AS:
            yield node.value
        elif isinstance(node, ast.Call) and node.args:
            adds = isinstance(node.func, ast.Attribute) and node.func.attr == "append"
            adds = adds and ast.unparse(node.func).endswith("problems.append")
            if adds or (isinstance(node.func, ast.Name) and node.func.id in _TOLD_BY):
                yield node.args[0]


def is_sentence(value: ast.expr, least: int) -> bool:
    """Whether an expression is, or may come to, a literal text of at least so many words."""
    if isinstance(value, ast.IfExp):
        return is_sentence(value.body, least) or is_sentence(value.orelse, least)
    if isinstance(value, ast.JoinedStr):
        pieces = [str(part.value) for part in value.values if isinstance(part, ast.Constant)]
        text = "{}".join(pieces)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        text = value.value
    else:
        return False
    is_data = any(sign in text for sign in "|\\_=*") or text.startswith("(")  # patterns, tables
    return " " in text.strip() and len(_WORD.findall(text)) >= least and not is_data


if __name__ == "__main__":
    main()
