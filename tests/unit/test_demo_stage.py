"""The demo's stage: a fresh project each time, and nothing of the user's ever thrown away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from duckflow_tui.scripted.stage import open_stage


async def played(act: Callable[[Path], object]) -> tuple[Path, Path | None]:
    """The project's folder after the stage was taken down, and what the stage says of it."""
    async with open_stage(fast=True) as stage:
        assert (stage.workspace / "src/shop/pricing.py").is_file()
        await asyncio.to_thread(act, stage.workspace)
    return stage.workspace, stage.kept


async def test_two_stages_share_nothing() -> None:
    async with open_stage(fast=True) as one, open_stage(fast=True) as other:
        assert one.workspace != other.workspace
        assert one.base_url != other.base_url
        assert one.base_url.startswith("http://127.0.0.1:")


async def test_an_untouched_project_leaves_no_trace() -> None:
    workspace, kept = await played(lambda _: None)
    assert kept is None
    assert not workspace.parent.exists()


async def test_what_running_the_tests_leaves_is_no_change() -> None:
    def litter(workspace: Path) -> None:
        (workspace / "tests/__pycache__").mkdir()
        (workspace / "tests/__pycache__/test_pricing.pyc").write_bytes(b"\0")

    workspace, kept = await played(litter)
    assert kept is None
    assert not workspace.exists()


def change(workspace: Path) -> None:
    (workspace / "src/shop/pricing.py").write_text("changed\n")


def delete(workspace: Path) -> None:
    (workspace / "src/shop/pricing.py").unlink()


def add(workspace: Path) -> None:
    (workspace / "notes.txt").write_text("mine\n")


def link(workspace: Path) -> None:
    (workspace / "link").symlink_to(workspace / "README.md")


@pytest.mark.parametrize("act", [change, delete, add, link])
async def test_a_project_that_changed_stays_and_is_named(act: Callable[[Path], object]) -> None:
    workspace, kept = await played(act)
    assert kept == workspace
    assert workspace.is_dir()


async def test_a_stage_that_is_left_by_an_error_is_taken_down_too() -> None:
    seen: list[Path] = []

    def fail(workspace: Path) -> None:
        seen.append(workspace)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await played(fail)
    assert not seen[0].exists()


async def test_a_named_folder_must_be_new(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        await open_stage(folder=tmp_path).__aenter__()
    async with open_stage(folder=tmp_path / "demo", fast=True) as stage:
        assert stage.workspace == (tmp_path / "demo" / "little-shop").resolve()


async def test_a_stage_taken_down_in_mid_reply_reports_no_error() -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    body = b'{"stream": true, "messages": [{"role": "user", "content": "hi"}, {"role": "user"}]}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    async with open_stage() as stage:
        address = urlsplit(stage.base_url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(head.encode() + body)
        assert b"200" in await reader.readline()
    writer.close()
    await asyncio.sleep(0)
    assert errors == []


async def test_what_the_session_keeps_beside_the_project_always_goes(tmp_path: Path) -> None:
    """The project stays where it changed; a link out of it is not followed."""
    (tmp_path / "mine.txt").write_text("mine")
    async with open_stage(fast=True) as stage:
        stage.own_state.mkdir()
        (stage.own_state / "blob").write_bytes(b"1")
        (stage.workspace / "out").symlink_to(tmp_path)
    assert stage.kept == stage.workspace
    assert not stage.own_state.exists()
    assert (tmp_path / "mine.txt").read_text() == "mine"
