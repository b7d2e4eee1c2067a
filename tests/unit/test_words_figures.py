"""The figures of a finished call, as they stand in its row on the screen and without one."""

from __future__ import annotations

import pytest

from duckflow_tui.state.base import JsonObject
from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import (
    clock_text,
    figures_words,
    find_target,
    lack_words,
    time_words,
    took_text,
)


@pytest.mark.parametrize(
    ("operation", "summary", "english", "japanese"),
    [
        ("plan_tool.revise", "accepted", "accepted", "承認済み"),
        ("plan_tool.revise", "closed", "closed", "終了"),
        ("plan_tool.revise", "deleted", "deleted", "削除済み"),
        ("plan_tool.propose", "4", "4 steps", "4 ステップ"),
        ("plan_tool.propose", "1", "1 step", "1 ステップ"),
        ("task_tool.generate_list", "1", "1 task", "1 タスク"),
        ("task_tool.generate_list", "3", "3 tasks", "3 タスク"),
        ("shell.run", "exit 1 · 0.3s", "exit 1 · 0.3s", "終了コード 1 · 0.3s"),
        ("file_ops.search_text", "3 · 1", "3 matches in 1 file", "3 件（1 ファイル）"),
        (
            "file_ops.search_text",
            "time-out · 0 · 0",
            "timed out · 0 matches in 0 files",
            "タイムアウト · 0 件（0 ファイル）",
        ),
    ],
)
def test_a_row_says_what_its_figure_counts_in_the_users_language(
    operation: str, summary: str, english: str, japanese: str
) -> None:
    assert figures_words(operation, summary, Catalogue("en")) == english
    assert figures_words(operation, summary, Catalogue("ja")) == japanese


@pytest.mark.parametrize(
    ("operation", "summary"),
    [
        ("file_ops.read_file", "1–38/38"),
        ("mcp.shop.count", "4"),
        ("mcp.shop.accept", "accepted"),
        ("mcp.shop.exit", "exit 1"),
        ("shell.run", "SIGTERM · 0.3s"),
    ],
)
def test_what_a_server_or_a_program_says_itself_stays_as_it_is(
    operation: str, summary: str
) -> None:
    assert figures_words(operation, summary, Catalogue("ja")) == summary


@pytest.mark.parametrize(
    ("note", "japanese"),
    [
        (
            "it adds up (`make -s` ended with exit code 2: no",
            "it adds up (`make -s` は終了コード 2: no",
        ),
        (
            "it adds up (`make` did not run: denied: no)",
            "it adds up (`make` は実行できず: denied: no)",
        ),
        ("合計が正しい", "合計が正しい"),
    ],
)
def test_what_a_check_came_to_is_said_in_the_users_language(note: str, japanese: str) -> None:
    """The note is the model's, and is cut where it is long."""
    assert lack_words(note, Catalogue("en")) == note
    assert lack_words(note, Catalogue("ja")) == japanese


@pytest.mark.parametrize(
    ("seconds", "clock", "took", "english", "japanese"),
    [
        (-1, "0:00", "0.0 s", "0 s", "0 秒"),
        (9.96, "0:09", "0:09", "9 s", "9 秒"),
        (59.9, "0:59", "0:59", "59 s", "59 秒"),
        (386, "6:26", "6:26", "6 min", "6 分"),
        (3723, "1:02:03", "1:02:03", "1 h", "1 時間"),
    ],
)
def test_a_time_reads_alike_wherever_it_stands(
    seconds: float, clock: str, took: str, english: str, japanese: str
) -> None:
    words = Catalogue("en")
    assert (clock_text(seconds), took_text(seconds, words)) == (clock, took)
    assert time_words(seconds, words) == english
    assert time_words(seconds, Catalogue("ja")) == japanese


@pytest.mark.parametrize(
    ("args", "target", "is_path"),
    [
        ({"path": "a.py", "content": "x"}, "a.py", True),
        ({"source": "a.py", "target": "lib/a.py"}, "a.py → lib/a.py", True),
        ({"command": "ls", "cwd": "lib"}, "ls", False),
        ({"city": "Kyoto"}, "Kyoto", False),
        ({"count": 3}, "", False),
    ],
)
def test_a_row_names_all_that_a_call_works_on(args: JsonObject, target: str, is_path: bool) -> None:
    assert find_target(args) == (target, is_path)
