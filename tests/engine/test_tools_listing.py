"""Listing, finding and the file picker: what git would ignore is left out, nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.bench import DEADLINE, Bench

from duckflow_tui.safety.paths import FileKind
from duckflow_tui.state.operations import Outcome
from duckflow_tui.tools import listing
from duckflow_tui.tools.listing import iter_files, walk_directory

LIST = "file_ops.list_dir"
FIND = "file_ops.find_files"

TREE = {
    ".gitignore": "*.log\n/build/\n!keep.log\ntmp/\n[broken\n",
    "a.py": "a",
    "x.log": "x",
    "keep.log": "k",
    "build/out.py": "o",
    "src/build/in.py": "i",
    "src/b.py": "bb",
    "src/.gitignore": "!special.log\n*.gen.py\n",
    "src/special.log": "s",
    "src/c.gen.py": "c",
    "src/deep/d.gen.py": "d",
    "src/deep/e.py": "e",
    "tmp/t.py": "t",
    "node_modules/m/index.js": "m",
    ".github/ci.yml": "y",
    "日本/語.txt": "j",
}
KEPT = {
    ".gitignore",
    "a.py",
    "keep.log",
    "src/build/in.py",
    "src/b.py",
    "src/.gitignore",
    "src/special.log",
    "src/deep/e.py",
    ".github/ci.yml",
    "日本/語.txt",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    for name, content in TREE.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(content)
    return path


async def _files(bench: Bench) -> list[str]:
    return [name async for batch in iter_files(bench.workspace) for name in batch]


@pytest.fixture(params=["program", "python"])
def searcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With ripgrep where the machine has it, and without."""
    if request.param == "python":
        monkeypatch.setenv("PATH", "/nowhere")
    elif shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    return str(request.param)


@pytest.mark.usefixtures("searcher")
async def test_the_picker_lists_what_git_would_not_ignore(bench: Bench) -> None:
    assert set(await _files(bench)) == KEPT


def test_git_agrees_with_the_expectation(root: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    said = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"],
        check=True,
        capture_output=True,
    )
    listed = {os.fsdecode(name) for name in said.stdout.split(b"\0") if name}
    assert listed - {"node_modules/m/index.js"} == KEPT


async def test_listing_counts_and_marks(bench: Bench, root: Path) -> None:
    (root / "link").symlink_to("a.py")
    (root / ".env").write_text("KEY=1")
    message = await bench.call(LIST)
    lines = message.result.text.split("\n")
    assert lines[0] == "[.: 3 directories, 5 files, 4 ignored]"
    assert "src/" in lines
    assert "a.py (1 bytes)" in lines
    assert "link (link)" in lines
    assert ".env (5 bytes, needs approval to read)" in lines
    assert "src/b.py (2 bytes)" not in lines


async def test_listing_goes_as_deep_as_asked(bench: Bench) -> None:
    one = await bench.call(LIST, path="src")
    assert "deep/" in one.result.text
    assert "deep/e.py" not in one.result.text
    two = await bench.call(LIST, path="src", depth=2)
    assert "deep/e.py (1 bytes)" in two.result.text


async def test_a_name_with_control_characters_stays_on_its_line(bench: Bench, root: Path) -> None:
    (root / "a\n[fake: 0 files]\x1b").write_text("")
    message = await bench.call(LIST)
    assert "\n[fake" not in message.result.text
    assert "\x1b" not in message.result.text
    assert '"a\\n[fake: 0 files]\\u001b"' in message.result.text


@pytest.mark.parametrize(
    ("glob", "path", "found"),
    [
        ("*.py", ".", {"a.py", "src/b.py", "src/build/in.py", "src/deep/e.py"}),
        ("src/*.py", ".", {"src/b.py"}),
        ("src/**/*.py", ".", {"src/b.py", "src/build/in.py", "src/deep/e.py"}),
        ("*.py", "src/deep", {"src/deep/e.py"}),
        ("!*.py", "src", {"src/.gitignore", "src/special.log"}),
        ("語.*", ".", {"日本/語.txt"}),
    ],
)
async def test_finding_by_name(bench: Bench, glob: str, path: str, found: set[str]) -> None:
    message = await bench.call(FIND, glob=glob, path=path)
    assert set(message.result.text.split("\n")[1:]) == found
    assert message.result.summary == str(len(found))


HOSTILE = ("a*" * 30 + "b", "**/a/" * 30 + "b", "[!b]*" * 30 + "b", "a" * 40_000)


@pytest.mark.parametrize("asked", ["rules", "glob"])
def test_no_pattern_takes_longer_than_a_name_is_worth(tmp_path: Path, asked: str) -> None:
    """Covers R18: in a process of its own, since a matcher that goes back would never end."""
    for name in ("a" * 60, "a/" * 60):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "x.py").write_text("")
    (tmp_path / "a" / "b\udcff.log").write_text("")  # a name that is no text
    rules = HOSTILE if asked == "rules" else ()
    (tmp_path / ".gitignore").write_text("\n".join([*rules, "*.log"]))
    code = f"""
import asyncio
from support.bench import Bench
from pathlib import Path
async def main():
    for glob in {HOSTILE[:-1] if asked == "glob" else ()!r}:
        print((await bench.call("file_ops.find_files", glob=glob)).result.summary)
        found = await bench.call("file_ops.search_text", pattern="x", glob=glob)
        assert found.result.outcome == "ok", found.result
    print((await bench.call("file_ops.find_files", glob="*.py")).result.summary)
    print((await bench.call("file_ops.find_files", glob="*.log")).result.summary)
bench = Bench(Path({str(tmp_path)!r}))
asyncio.run(main())
"""
    tests = Path(__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tests, capture_output=True, timeout=DEADLINE, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.split()[-2:] == [b"2", b"0"]


async def test_more_rules_than_are_matched_at_once_decide_in_their_order(root: Path) -> None:
    rules = ["*.txt", *(f"none{n}/*x*" for n in range(1_200)), "!in.txt", "[broken", "b.py"]
    (root / ".gitignore").write_text("\n".join(rules))
    (root / "in.txt").write_text("")
    (root / "out.txt").write_text("")
    message = await Bench(root).call(FIND, glob="*")
    files = message.result.text.split("\n")
    assert "in.txt" in files
    assert not {"out.txt", "src/b.py"} & set(files)


async def test_listing_a_file_or_nothing_is_an_error(bench: Bench) -> None:
    for operation, more in [(LIST, {}), (FIND, {"glob": "*"})]:
        file = await bench.call(operation, path="a.py", **more)
        none = await bench.call(operation, path="none", **more)
        assert file.result.outcome is none.result.outcome is Outcome.ERROR
        assert "is a file" in file.result.text
        assert "does not exist" in none.result.text


async def test_links_are_not_followed(bench: Bench, root: Path) -> None:
    (root / "loop").symlink_to(".")
    (root / "out").symlink_to("/usr")
    found = await walk_directory(bench.workspace, bench.workspace.locate_path("."), depth=None)
    links = {entry.path for entry in found.entries if entry.kind is FileKind.LINK}
    assert links == {"loop", "out"}
    assert not any(entry.path.startswith(("loop/", "out/")) for entry in found.entries)


@pytest.mark.usefixtures("searcher")
async def test_the_picker_stops_at_its_limit(bench: Bench) -> None:
    batches = [batch async for batch in iter_files(bench.workspace, limit=3)]
    assert sum(len(batch) for batch in batches) == 3


@pytest.mark.usefixtures("searcher")
async def test_paths_take_only_so_much_room(
    bench: Bench, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the names are: 200,000 paths of 4,000 characters would take 800 MB."""
    for number in range(3_000):
        (root / f"{number:04}{'n' * 240}").touch()
    monkeypatch.setattr(listing, "MAX_TEXT", 50_000)
    found = await bench.call(FIND, glob="*n")
    assert "only the first" in found.result.text
    assert int(found.result.summary) < 300
    assert len(await _files(bench)) < 2_900


@pytest.mark.whole
async def test_many_files_are_listed_without_holding_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ripgrep where the machine has it, then without."""
    root = tmp_path / "many"
    for folder in range(40):
        path = root / f"d{folder}"
        path.mkdir(parents=True)
        for name in range(300):
            os.close(os.open(path / f"f{name}.py", os.O_CREAT))
    await _list_all(Bench(root), 12_000)
    monkeypatch.setenv("PATH", "/nowhere")
    await _list_all(Bench(root), 12_000)


async def _list_all(bench: Bench, count: int) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.001)
            beats += 1

    beating = asyncio.create_task(beat())
    async with asyncio.timeout(DEADLINE):
        files = await _files(bench)
    beating.cancel()
    assert len(files) == count, os.environ["PATH"]
    assert beats > 0, os.environ["PATH"]  # a listing on the loop itself lets nothing else run
