"""Globs: nothing is said to be found only where the question was understood, by every search."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.bench import Bench
from support.whole import rounds

from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.gates import GateChoice
from duckflow_tui.state.operations import Outcome

FIND, SEARCH = "file_ops.find_files", "file_ops.search_text"

TREE = [
    "main.ts", "README.md", "src/a.ts", "src/b.js", "src/c.py", "src/ui/d.ts", "src/ui/e.tsx",
    "src/ui/[id].tsx", "src/ui/d.x/f.md", "lib/a.ts", "lib/g,v", "build/out.ts", "build/deep/o.ts",
    "x.log", "#note", "!mark", "日本/語.txt", "sp ace.ts", "a{b}.c", ".hidden/h.ts",
    "node_modules/m.ts", "keep/x.log",
]  # fmt: skip
RULES = {".gitignore": "build/\n*.log\n", "keep/.gitignore": "!x.log\n", ".ignore": "lib/\n"}


def _make(root: Path, names: list[str] = TREE) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("needle\n")
    for name, rules in RULES.items():
        if (root / name).parent.is_dir():
            (root / name).write_text(f"{rules}# needle\n")
    return root


def _found(message: OperationMessage) -> set[str]:
    assert message.result.outcome is Outcome.OK, message.result.text
    rows = message.result.text.split("\n")[1:]
    return {row for row in rows if not row.startswith(("  ", "["))}


async def _by_both(bench: Bench, glob: str, path: str) -> list[set[str]]:
    """What finding and searching make of a glob."""
    found = await bench.call(FIND, glob=glob, path=path)
    searched = await bench.call(SEARCH, pattern="needle", glob=glob, path=path)
    return [_found(found), _found(searched)]


@pytest.mark.parametrize(
    ("glob", "path", "files"),
    [
        ("./src/*.ts", ".", "src/a.ts"),
        ("./*.ts", ".", "main.ts|sp ace.ts"),
        ("src/*.{ts,js}", ".", "src/a.ts|src/b.js"),
        ("{src,lib}/*.ts", ".", "src/a.ts|lib/a.ts"),
        ("*.{js,{py,tsx}}", "src", "src/b.js|src/c.py|src/ui/e.tsx|src/ui/[id].tsx"),
        ("{src/ui,lib}/**/*.{ts,md}", ".", "src/ui/d.ts|src/ui/d.x/f.md|lib/a.ts"),
        ("ROOT/src/*.ts", ".", "src/a.ts"),
        ("ROOT/src/*.ts", "lib", "src/a.ts"),
        ("ROOT/src/**/*.ts", ".", "src/a.ts|src/ui/d.ts"),
        ("~/work/src/*.js", ".", "src/b.js"),
        ("../src/*.js", "lib", "src/b.js"),
        ("**/*.ts", "src", "src/a.ts|src/ui/d.ts"),
        ("src/**/*.ts", ".", "src/a.ts|src/ui/d.ts"),
        ("**/ui/**", ".", "src/ui/d.ts|src/ui/e.tsx|src/ui/[id].tsx|src/ui/d.x/f.md"),
        ("ui", "src", "src/ui/d.ts|src/ui/e.tsx|src/ui/[id].tsx|src/ui/d.x/f.md"),
        ("lib/", ".", "lib/a.ts|lib/g,v"),
        ("src/*/", ".", "src/ui/d.ts|src/ui/e.tsx|src/ui/[id].tsx|src/ui/d.x/f.md"),
        ("*.x", "src", "src/ui/d.x/f.md"),
        ("src/a.ts", ".", "src/a.ts"),
        ("a.ts", ".", "src/a.ts|lib/a.ts"),
        ("src/ui/[id].tsx", ".", "src/ui/[id].tsx"),
        ("\\[id\\].tsx", ".", "src/ui/[id].tsx"),
        ("[a-b].[tj]s", "src", "src/a.ts|src/b.js"),
        ("[!a].ts", "src", "src/ui/d.ts"),
        ("!*.{ts,tsx,md}", "src", "src/b.js|src/c.py"),
        ("#note", ".", "#note"),
        ("\\!mark", ".", "!mark"),
        ("a{b}.c", ".", "a{b}.c"),
        ("*\\,v", ".", "lib/g,v"),
        ("sp ace.ts", ".", "sp ace.ts"),
        ("語.*", ".", "日本/語.txt"),
        ("*.log", ".", "keep/x.log"),
        ("build/*.ts", ".", "build/out.ts"),
        ("*.ts", "build", "build/out.ts|build/deep/o.ts"),
        ("*.ts", "build/deep", "build/deep/o.ts"),
        ("h.*", ".", ".hidden/h.ts"),
        ("src//*.py", ".", "src/c.py"),
        ("*.rs", ".", ""),
    ],
)
async def test_what_a_glob_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, glob: str, path: str, files: str
) -> None:
    """Finding and searching give the same files."""
    monkeypatch.setenv("HOME", str(tmp_path))
    root = _make(tmp_path / "work")
    glob = glob.replace("ROOT", str(root))
    for found in await _by_both(Bench(root), glob, path):
        assert found == set(filter(None, files.split("|")))


@pytest.mark.parametrize(
    ("glob", "words"),
    [
        ("src\\a.ts", "separated by /"),
        ("src\\*.ts", "separated by /"),
        ("*.{ts,js", "not closed"),
        ("*.ts}", "not opened"),
        ("*.ts,*.js", "in braces"),
        ("*.ts|*.js", "in braces"),
        ("file{1..3}.ts", "write its values"),
        ("*/../a.ts", "write it as path"),
        ("{/etc,src}/*.ts", "write it as path"),
        ("{a,b}" * 9, "more than"),
        (" ", "it is empty"),
    ],
)
@pytest.mark.parametrize("operation", [FIND, SEARCH])
async def test_a_glob_that_is_not_understood_is_refused_with_the_reason(
    tmp_path: Path, operation: str, glob: str, words: str
) -> None:
    more = {"pattern": "needle"} if operation == SEARCH else {}
    message = await Bench(_make(tmp_path)).call(operation, glob=glob, **more)
    assert message.result.outcome is Outcome.INVALID
    assert words in message.result.text


async def test_a_folder_that_a_glob_names_and_is_not_there_is_told(tmp_path: Path) -> None:
    bench = Bench(_make(tmp_path))
    for operation, more in ((FIND, {}), (SEARCH, {"pattern": "needle"})):
        message = await bench.call(operation, glob="source/*.ts", **more)
        assert message.result.outcome is Outcome.ERROR
        assert "source does not exist" in message.result.text


async def test_a_glob_outside_asks_for_the_folder_that_it_names(tmp_path: Path) -> None:
    bench = Bench(_make(tmp_path / "work"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "o.ts").write_text("needle\n")
    args = {"glob": f"{tmp_path}/out/*.ts"}
    message = await bench.answered(GateChoice.ONCE, FIND, args)
    assert _found(message) == {f"{tmp_path}/out/o.ts"}
    searched = await bench.answered(GateChoice.ONCE, SEARCH, {"pattern": "needle", **args})
    assert _found(searched) == {f"{tmp_path}/out/o.ts"}


async def test_an_answer_of_nothing_says_how_much_was_looked_at(tmp_path: Path) -> None:
    bench = Bench(_make(tmp_path / "work"))
    found = await bench.call(FIND, glob="*.rs", path="src")
    assert found.result.text == '[0 files for "*.rs", of 7 in src]'
    found = await bench.call(FIND, glob="out.ts")
    assert "ignored names left out: 3, give one as path" in found.result.text
    found = await bench.call(SEARCH, pattern="haystack", glob="*.py", path="src")
    assert '0 matches for "haystack" in 1 file of src that fit "*.py"' in found.result.text
    for pattern in ("a\nb", "a\0b"):
        found = await bench.call(SEARCH, pattern=pattern)
        assert found.result.outcome is Outcome.INVALID
    found = await bench.call(SEARCH, pattern="needle$", regex=True, path="src/a.ts")
    (tmp_path / "work" / "crlf").write_bytes(b"needle\r\n")
    found = await bench.call(SEARCH, pattern="needle$", regex=True, path="crlf")
    assert found.result.summary == "1 · 1"


PIECES = ["*", "**", "?", "a", "b", "ab", "*.t", "a*", "*b", "[ab]", "[!a]", "{a,b}", "{a,b/a}", ""]


async def test_finding_and_searching_agree_on_any_tree_and_any_glob(tmp_path: Path) -> None:
    chance = random.Random(11)
    for number in range(rounds(10, 4)):
        names = {
            "/".join(chance.choices(["a", "b", "ab", "a.t", "b.t", "c"], k=chance.randint(1, 4)))
            for _ in range(25)
        }
        names = {n for n in names if not any(other.startswith(f"{n}/") for other in names)}
        root = _make(tmp_path / str(number), sorted(names))
        rules = chance.choices([*PIECES[3:11], "/a", "b/", "a/b"], k=2)
        (root / ".gitignore").write_text("\n".join(rule for rule in rules if rule) + "\nneedle\n")
        bench = Bench(root)
        for _ in range(rounds(12, 8)):
            glob = "/".join(chance.choices(PIECES, k=chance.randint(1, 3)))
            glob = chance.choice(["", "", "./", "!"]) + (glob.lstrip("/") or "a")
            message = await bench.call(FIND, glob=glob)
            if message.result.outcome is not Outcome.OK:
                again = await bench.call(SEARCH, pattern="needle", glob=glob)
                assert again.result.outcome is message.result.outcome, glob
                continue
            found, searched = await _by_both(bench, glob, ".")
            assert found == searched, (sorted(names), rules, glob)
