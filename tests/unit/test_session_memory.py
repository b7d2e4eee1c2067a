"""The notes of a project: their file, what the user's own hand does to it, and their counts."""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pinned import ManualClock

from duckflow_tui.safety.secrets import Redactor
from duckflow_tui.session.memory import (
    KINDS,
    LARGEST,
    MemoryWords,
    ProjectMemory,
    decode_notes,
    encode_notes,
    insert_line,
    memory_lines,
    remove_line,
)
from duckflow_tui.session.project_rules import ProjectRules
from duckflow_tui.tools.memory import MemoryFault, MemoryKind, MemoryLine, find_matching

WORDS = MemoryWords(
    title="Notes on shop",
    note="yours to edit",
    headings={"worked": "Worked", "failed": "Failed", "preference": "Preferences"},
    known={
        "worked": "worked",
        "failed": "failed",
        "preferences": "preference",
        "好み": "preference",
    },
)
TODAY = "2025-06-15"
KEY = "correct-horse-battery"


def memory(tmp_path: Path, already: Mapping[str, int] | None = None) -> ProjectMemory:
    (tmp_path / "shop").mkdir(exist_ok=True)
    redact = Redactor([KEY]).redact_text
    return ProjectMemory(
        tmp_path / "memory", tmp_path / "shop", WORDS, ManualClock(), redact, already=already
    )


def notes(made: ProjectMemory) -> Path:
    return Path(made.path)


async def fault_of(made: ProjectMemory, text: str, kind: MemoryKind = "worked") -> str:
    with pytest.raises(MemoryFault) as caught:
        await made.remember(text, kind)
    return caught.value.code


async def test_a_line_is_noted_with_its_day_in_its_section(tmp_path: Path) -> None:
    made = memory(tmp_path)
    await made.remember("short answers, please", "preference")
    await made.remember("pytest -q finds the tests", "worked")
    text = notes(made).read_text("utf-8")
    assert text == (
        "# Notes on shop\n\n<!-- yours to edit -->\n\n"
        f"## Worked\n- {TODAY} pytest -q finds the tests\n\n"
        "## Failed\n\n"
        f"## Preferences\n- {TODAY} short answers, please\n"
    )
    lines = await made.list_lines()
    assert [(line.kind, line.text, line.on) for line in lines] == [
        ("worked", "pytest -q finds the tests", TODAY),
        ("preference", "short answers, please", TODAY),
    ]


async def test_only_the_user_may_read_it(tmp_path: Path) -> None:
    made = memory(tmp_path)
    await made.remember("a way", "worked")
    await made.add_counts({"total_files": 1})
    files = list((tmp_path / "memory").iterdir())
    assert len(files) == 2  # no draft is left
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "memory").stat().st_mode) == 0o700


async def test_a_project_is_its_folder_whatever_name_leads_there(tmp_path: Path) -> None:
    made = memory(tmp_path)
    (tmp_path / "other").symlink_to(tmp_path / "shop")
    again = ProjectMemory(tmp_path, tmp_path / "other", WORDS, ManualClock(), str)
    assert Path(again.path).name == notes(made).name
    (tmp_path / "deep" / "shop").mkdir(parents=True)
    third = ProjectMemory(tmp_path, tmp_path / "deep/shop", WORDS, ManualClock(), str)
    assert Path(third.path).name != notes(made).name
    assert notes(made).name.startswith("shop-")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("  ", "empty"),
        ("x" * 301, "too_long"),
        ("one\ntwo", "control"),
        ("clear \x1b[2J the screen", "control"),
        ("turn \u202e around", "control"),
        (f"the password is {KEY}", "secret"),
        ("use sk-q7Lr2Vx9Tb4Nw8KdXz5P", "secret"),
        ("PYTEST  －q finds the tests", "known"),
    ],
)
async def test_what_is_not_noted(tmp_path: Path, text: str, code: str) -> None:
    made = memory(tmp_path)
    await made.remember("pytest -q finds the tests", "worked")
    before = notes(made).read_bytes()
    assert await fault_of(made, text, "preference") == code
    assert notes(made).read_bytes() == before


OWN = (
    "\ufeff# mine\r\n\r\nfree words\r\n## 好み\r\n* 2024-01-02: 短く\r\n1. tabs\r\n\r\n"
    "## Deploys\r\n<!-- not\r\n- a line -->\r\n- on Fridays\r\nlatin \udce9\udc80 bytes"
)


async def test_the_users_own_edits_stay_byte_for_byte(tmp_path: Path) -> None:
    made = memory(tmp_path)
    (tmp_path / "memory").mkdir()
    raw = encode_notes(OWN)
    notes(made).write_bytes(raw)
    lines = await made.list_lines()
    assert [(line.kind, line.text, line.on) for line in lines] == [
        (None, "free words", ""),
        ("preference", "短く", "2024-01-02"),
        ("preference", "tabs", ""),
        (None, "on Fridays", ""),
        (None, "latin \ufffd bytes", ""),
    ]
    await made.remember("no emojis", "preference")
    added = f"- {TODAY} no emojis\r\n".encode()
    new = notes(made).read_bytes()
    assert new.replace(added, b"") == raw
    assert new.index(added) > new.index(b"1. tabs")
    assert new.index(added) < new.index(b"## Deploys")
    await made.remember("the cache", "failed")  # a section that is not there yet
    assert (
        notes(made).read_bytes() == new + f"\r\n\r\n## Failed\r\n- {TODAY} the cache\r\n".encode()
    )


def same_for(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


@given(
    st.text(st.sampled_from("#-* \n\r\udcffあa1<!>"), max_size=60),
    st.sampled_from(KINDS),
    st.booleans(),
)
def test_noting_and_removing_a_line_changes_nothing_else(
    text: str, kind: MemoryKind, known: bool
) -> None:
    if known:
        text += "\n## Worked\n- x\n\n## Failed\n\n## Preferences\n"
    noted = insert_line(text, kind, "quite new", TODAY, WORDS)
    if text.strip():  # one piece was put in, and nothing else
        assert same_for(text, noted) + same_for(text[::-1], noted[::-1]) >= len(text)
    assert decode_notes(encode_notes(noted)) == noted
    for said in memory_lines(noted, WORDS):
        if said.text == "quite new":
            without = remove_line(noted, said)
            assert without is not None
            assert "quite new" not in without


@pytest.mark.parametrize(
    "text",
    [
        "<!-- \n## Worked\n- a\n",
        "# Notes\n\n<!-- mine\n- a",
        "## Worked\n- a\n<!-- mine\n- b\n",
        "## Worked\r\n<!-- mine -->\r\n\r\n## Failed\r\n<!--\r\n",
        "\ufeff<!--",
    ],
)
@pytest.mark.parametrize("kind", ["worked", "failed"])
def test_what_is_noted_beside_a_comment_that_never_ends_is_seen(
    text: str, kind: MemoryKind
) -> None:
    noted = insert_line(text, kind, "quite new", TODAY, WORDS)
    (said,) = (line for line in memory_lines(noted, WORDS) if line.text == "quite new")
    assert said.kind == kind
    assert same_for(text, noted) + same_for(text[::-1], noted[::-1]) >= len(text)


@pytest.mark.parametrize("row", ["# #", "# ", "#\t", "1", "- ", "a ", "2025-06-15 \t", "<!--"])
def test_a_line_as_long_as_the_file_may_be_is_read_at_once(row: str) -> None:
    """Notes are read before the first key is answered."""
    text = (row * LARGEST)[:LARGEST] + "x\n## Worked\n- a\n"
    before = time.monotonic()
    memory_lines(text, WORDS)
    insert_line(text, "worked", "b", TODAY, WORDS)
    assert time.monotonic() - before < 2.0


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("## Worked\n- a\n- b", "## Worked\n- a\n"),
        ("## Worked\n- a\n- b\n", "## Worked\n- a\n"),
        ("## Worked\n- b\n- a", "## Worked\n- a"),
    ],
)
def test_a_last_line_without_an_end_is_removed_and_added_to(text: str, left: str) -> None:
    (said,) = (line for line in memory_lines(text, WORDS) if line.text == "b")
    assert remove_line(text, said) == left
    assert remove_line(left, said) is None
    moved = f"# Notes\n{text}"
    assert remove_line(moved, said) == f"# Notes\n{left}"
    assert (
        insert_line("## Worked\n- a", "worked", "b", TODAY, WORDS) == f"## Worked\n- a\n- {TODAY} b"
    )


async def test_a_line_is_removed_as_it_was_shown_and_no_other(tmp_path: Path) -> None:
    made = memory(tmp_path)
    for text in ("one", "two", "three"):
        await made.remember(text, "worked")
    line = next(line for line in await made.list_lines() if line.text == "two")
    path = notes(made)
    path.write_text("my first line\n" + path.read_text("utf-8"), "utf-8")  # it stands elsewhere now
    await made.forget(line)
    assert [line.text for line in await made.list_lines()] == ["my first line", "one", "three"]
    with pytest.raises(MemoryFault, match="gone"):
        await made.forget(line)
    assert [line.text for line in await made.list_lines()] == ["my first line", "one", "three"]


async def test_a_file_that_is_too_large_or_no_text_is_left_alone(tmp_path: Path) -> None:
    made = memory(tmp_path)
    (tmp_path / "memory").mkdir()
    path = notes(made)
    for raw, code in (
        (b"- " + b"x" * LARGEST, "full"),
        ("- wide".encode("utf-16"), "not_text"),
        (b"- " + b"x" * (LARGEST - 20), "full"),
    ):
        path.write_bytes(raw)
        assert await fault_of(made, "one more line") == code
        if len(raw) > LARGEST or code == "not_text":
            with pytest.raises(MemoryFault):
                await made.list_lines()
        assert path.read_bytes() == raw
        made.load()  # prompts go on without it, or with what there is room for


async def test_what_is_told_is_known_to_prompts_at_once(tmp_path: Path) -> None:
    """Also what the user wrote by hand, once it is read again."""
    made = memory(tmp_path)
    await made.remember("a way", "worked")
    assert made.known.learned_patterns == ("worked: a way",)
    notes(made).write_text("## Failed\n- a dead end\n")
    await made.reread()
    assert made.known.learned_patterns == ("failed: a dead end",)
    with pytest.raises(MemoryFault) as caught:
        await made.check("A dead end")
    assert caught.value.code == "known"
    await made.check("another way")


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("# mine", "# mine\n\n## Worked\n- 2025-06-15 x\n"),
        ("# mine\n", "# mine\n\n## Worked\n- 2025-06-15 x\n"),
        ("# mine\n\n", "# mine\n\n## Worked\n- 2025-06-15 x\n"),
        (
            "## Worked\n- a\n## Failed\n## Worked\n- b\n",
            "## Worked\n- a\n- 2025-06-15 x\n## Failed\n## Worked\n- b\n",
        ),
    ],
)
def test_a_line_goes_to_the_end_of_the_first_section_of_its_kind(text: str, noted: str) -> None:
    assert insert_line(text, "worked", "x", TODAY, WORDS) == noted


async def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    made = memory(tmp_path)
    (tmp_path / "memory").mkdir()
    target = tmp_path / "target"
    target.write_text("- theirs\n")
    notes(made).symlink_to(target)
    assert await fault_of(made, "one more line") == "disk"
    with pytest.raises(MemoryFault, match="disk"):
        await made.list_lines()
    assert target.read_text() == "- theirs\n"
    notes(made).unlink()
    os.mkfifo(made.path)
    assert await fault_of(made, "one more line") == "disk"


async def test_a_file_to_edit_by_hand_is_made_once_and_is_then_the_users(tmp_path: Path) -> None:
    made = memory(tmp_path)
    await made.create_file()
    assert notes(made).read_text().startswith("# Notes on shop")
    await made.remember("a way", "worked")
    before = notes(made).read_bytes()
    await made.create_file()
    assert notes(made).read_bytes() == before


async def test_a_full_disk_leaves_the_old_notes(tmp_path: Path) -> None:
    made = memory(tmp_path)
    await made.remember("a way", "worked")
    before = notes(made).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), hard))
    try:
        with pytest.raises(MemoryFault) as caught:
            await made.remember("another", "worked")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (caught.value.code, caught.value.detail) == ("disk", "File too large")
    assert notes(made).read_bytes() == before
    assert len(list((tmp_path / "memory").iterdir())) == 1


async def test_prompts_are_told_the_newest_lines_and_the_totals(tmp_path: Path) -> None:
    """Covers S4-9."""
    made = memory(tmp_path)
    (tmp_path / "memory").mkdir()
    notes(made).write_text(
        "## Preferences\n- 2024-01-01 old wish\n"
        + "".join(f"- 2025-01-0{n} wish {n}\n" for n in range(1, 6))
        + f"## Failed\n- 2025-01-01 the cache, it is stale\n- 2025-01-02 {KEY}\n"
        + "## Mine\n- private\n"
    )
    await made.add_counts({"total_files": 4, "successful_operations": 9, "total_conversations": 2})
    await made.add_counts({"total_files": 1})
    made.load()
    assert made.known.user_settings == ("wish 5", "wish 4", "wish 3", "wish 2", "wish 1")
    assert made.known.learned_patterns == (
        "failed: [redacted]",
        "failed: the cache, it is stale",
    )
    known = made.known
    counts = (known.total_files, known.successful_operations, known.total_conversations)
    assert counts == (5, 9, 2)
    resumed = memory(tmp_path, already={"total_files": 3, "successful_operations": 20})
    resumed.load()
    assert (resumed.known.total_files, resumed.known.successful_operations) == (2, 0)


@pytest.mark.parametrize(
    "raw", [b"[1]", b"{", b'{"total_files": "9"}', b'{"total_files": -1}', b"[" * 9999]
)
async def test_counts_that_cannot_be_read_are_begun_anew(tmp_path: Path, raw: bytes) -> None:
    made = memory(tmp_path)
    (tmp_path / "memory").mkdir()
    notes(made).with_suffix(".json").write_bytes(raw)
    made.load()
    assert made.known.total_files == 0
    await made.add_counts({"total_files": 2})
    made.load()
    assert made.known.total_files == 2


async def test_where_counts_are_no_file_nothing_is_counted(tmp_path: Path) -> None:
    made = memory(tmp_path)
    await made.remember("a way", "worked")
    counts = notes(made).with_suffix(".json")
    counts.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text('{"total_files": 5}')
    await made.add_counts({"total_files": 2})
    made.load()
    assert (made.known.total_files, made.known.learned_patterns) == (0, ("worked: a way",))
    assert (tmp_path / "elsewhere").read_text() == '{"total_files": 5}'


@pytest.mark.parametrize(
    ("folder", "name"),
    [("my shop!", "my-shop-"), ("...", "project-"), ("x" * 50, "x" * 40 + "-"), ("_a.b", "_a.b-")],
)
def test_the_file_has_the_name_of_the_project(tmp_path: Path, folder: str, name: str) -> None:
    (tmp_path / folder).mkdir()
    made = ProjectMemory(tmp_path, tmp_path / folder, WORDS, ManualClock(), str)
    found = notes(made)
    assert found.name.startswith(name)
    assert len(found.name) == len(name) + len("0123456789ab.md")
    rules = ProjectRules(tmp_path, tmp_path / folder, (1, 2))
    assert Path(rules.path).name.startswith(name)
    assert len(rules.path) == len(made.path) + len("son") - len("d")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("pytest", ["pytest -q runs the tests"]),
        ("how do I run tests with PYTEST", ["pytest -q runs the tests"]),
        ("テストの書き方", ["テストは一つずつ書いてから動かす"]),
        ("割引の計算", ["割引を合計する計算は誤り"]),
        ("デプロイしてください", []),
        (
            "",
            [
                "割引を合計する計算は誤り",
                "テストは一つずつ書いてから動かす",
                "pytest -q runs the tests",
            ],
        ),
    ],
)
def test_lines_are_found_by_their_words_also_without_spaces(query: str, found: list[str]) -> None:
    lines = [
        MemoryLine(0, "worked", "pytest -q runs the tests", "2025-01-01"),
        MemoryLine(1, "worked", "テストは一つずつ書いてから動かす", "2025-01-02"),
        MemoryLine(2, "failed", "割引を合計する計算は誤り", "2025-01-03"),
    ]
    assert [line.text for line in find_matching(lines, query)] == found
