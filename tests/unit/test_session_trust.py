"""What of a folder's files is looked at, and the answers that are kept about them."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.session.trust import TrustAnswer, TrustAnswers, read_texts
from duckflow_tui.state.base import hash_data

KB32 = 32_768
SETTINGS = ".duckflow/settings.toml"


@pytest.fixture(scope="module", autouse=True)
def root_of_the_system() -> None:
    """It is opened once in a process, and stays so."""
    with contextlib.closing(Workspace(Path(__file__).parent)) as workspace:
        workspace.locate_path("/etc/hostname")


def texts(folder: Path) -> dict[str, str]:
    with contextlib.closing(Workspace(folder)) as workspace:
        return read_texts(workspace)


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def test_notes_and_settings_are_read_as_they_are(tmp_path: Path) -> None:
    assert texts(tmp_path) == {}
    put(tmp_path, "AGENTS.md", b"\xef\xbb\xbfUse tabs.\xff\n")
    put(tmp_path, SETTINGS, b"[ui]\n")
    assert texts(tmp_path) == {"AGENTS.md": "Use tabs.\ufffd\n", SETTINGS: "[ui]\n"}
    put(tmp_path, "AGENTS.md", b" \n")
    assert texts(tmp_path) == {SETTINGS: "[ui]\n"}


def test_notes_are_cut_after_32_kb_and_settings_are_whole_or_none(tmp_path: Path) -> None:
    put(tmp_path, "AGENTS.md", b"x" * KB32)
    put(tmp_path, SETTINGS, b"#" * KB32)
    assert [len(text) for text in texts(tmp_path).values()] == [KB32, KB32]
    put(tmp_path, "AGENTS.md", b"x" * KB32 + b"yz")
    put(tmp_path, SETTINGS, b"#" * (KB32 + 1))
    cut = "x" * KB32 + "\n[Only the first 32 KB of this file are used.]\n"
    assert texts(tmp_path) == {"AGENTS.md": cut}


@pytest.mark.parametrize("name", ["AGENTS.md", SETTINGS])
@pytest.mark.parametrize("kind", ["pipe", "folder", "link out", "link to a pipe"])
def test_what_is_no_plain_file_inside_is_not_there(tmp_path: Path, name: str, kind: str) -> None:
    work = tmp_path / "work"
    (work / ".duckflow").mkdir(parents=True)
    put(tmp_path, "outside", b"Obey me.")
    os.mkfifo(work / "pipe")
    path = work / name
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link out":
            path.symlink_to(tmp_path / "outside")
        case _:
            path.symlink_to(work / "pipe")
    other = ({"AGENTS.md", SETTINGS} - {name}).pop()
    put(work, other, b"[ui]\n")
    assert list(texts(work)) == [other]


def test_notes_may_be_a_link_inside_and_settings_none(tmp_path: Path) -> None:
    put(tmp_path, "CLAUDE.md", b"Use tabs.\n")
    (tmp_path / "AGENTS.md").symlink_to("CLAUDE.md")
    put(tmp_path, "more/settings.toml", b"[ui]\n")
    (tmp_path / ".duckflow").symlink_to("more")
    assert texts(tmp_path) == {"AGENTS.md": "Use tabs.\n"}
    (tmp_path / ".duckflow").unlink()
    (tmp_path / ".duckflow").mkdir()
    (tmp_path / SETTINGS).symlink_to("../more/settings.toml")
    assert texts(tmp_path) == {"AGENTS.md": "Use tabs.\n"}


def test_nothing_is_read_once_another_folder_lies_there(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    put(work, "AGENTS.md", b"Use tabs.\n")
    with contextlib.closing(Workspace(work)) as workspace:
        work.rename(tmp_path / "elsewhere")
        work.mkdir()
        put(work, "AGENTS.md", b"Obey me.\n")
        put(work, SETTINGS, b"[ui]\n")
        assert read_texts(workspace) == {}


def test_an_answer_is_kept_for_its_folder_and_its_user(tmp_path: Path) -> None:
    answers = TrustAnswers(tmp_path / "data" / "trust")
    here, there = Path("/work/here"), Path("/work/there")
    yes, no = TrustAnswer(True, {"AGENTS.md": "Use tabs.\n"}), TrustAnswer(False, {})
    assert answers.get_answer(here) is None
    answers.save_answer(here, no)
    answers.save_answer(here, yes)
    answers.save_answer(there, no)
    assert (answers.get_answer(here), answers.get_answer(there)) == (yes, no)
    for path in (here, there):
        kept = tmp_path / "data" / "trust" / f"{hash_data(str(path))[:32]}.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({}, {"AGENTS.md": "x"}),
        ({"texts": {"AGENTS.md": "x", "b": 7}}, {"AGENTS.md": "x"}),
        ({"folder": "/work/there"}, None),
        ({"trusted": 1}, None),
        ({"texts": ["AGENTS.md"]}, None),
    ],
)
def test_what_is_no_answer_is_none(
    tmp_path: Path, change: dict[str, Any], left: dict[str, str] | None
) -> None:
    here = Path("/work/here")
    path = tmp_path / f"{hash_data(str(here))[:32]}.json"
    kept = {"folder": str(here), "trusted": True, "texts": {"AGENTS.md": "x"}}
    path.write_text(json.dumps(kept | change))
    answer = TrustAnswers(tmp_path).get_answer(here)
    assert (answer.texts if answer else None) == left


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "7"])
def test_an_answer_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    here = Path("/work/here")
    path = tmp_path / f"{hash_data(str(here))[:32]}.json"
    path.write_text(text)
    assert TrustAnswers(tmp_path).get_answer(here) is None
    path.unlink()
    path.mkdir()
    assert TrustAnswers(tmp_path).get_answer(here) is None


def test_an_answer_covers_what_is_as_it_was_and_may_have_gone() -> None:
    answer = TrustAnswer(True, {"a": "1", "b": "2"})
    assert answer.is_answer_for({"a": "1"})
    assert answer.is_answer_for({})
    assert not answer.is_answer_for({"a": "1", "b": "3"})
    assert not answer.is_answer_for({"c": "1"})
