"""The figures of a finished call, as they stand in its row on the screen and without one."""

from __future__ import annotations

import pytest

from duckflow_tui.words.catalogue import Catalogue
from duckflow_tui.words.figures import figures_words, told_words


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
        (
            "file_ops.read_file",
            "does not exist; file_ops.find_files finds files by name.",
            "does not exist",
            "存在しません",
        ),
        ("file_ops.search_text", "3 · 1", "3 matches in 1 file", "1 ファイルに 3 件"),
    ],
)
def test_a_row_says_what_its_figure_counts_in_the_users_language(
    operation: str, summary: str, english: str, japanese: str
) -> None:
    assert figures_words(operation, summary, Catalogue("en")) == english
    assert figures_words(operation, summary, Catalogue("ja")) == japanese


@pytest.mark.parametrize(
    ("text", "english", "japanese"),
    [
        ("長.txt is there (there is no 長.txt)", "", "長.txt is there (長.txt がありません)"),
        (
            "tests pass (`pytest -q` ended with exit code 1: 1 failed)",
            "",
            "tests pass (`pytest -q` の終了コードは 1: 1 failed)",
        ),
        (
            "changed a (b).txt (+1 −2 lines).",
            "changed a (b).txt (+1 −2)",
            "a (b).txt を変更（+1 −2）",
        ),
        (
            "file_ops.list_dir src/a.py: src/a.py is a file, not a directory; file_ops.read_file "
            "reads it. · depth 2",
            "list src/a.py: src/a.py is a file, not a folder · depth 2",
            "一覧 src/a.py: src/a.py はフォルダーではなくファイルです · depth 2",
        ),
        ("A test does not exist. Write one.", "", "A test does not exist. Write one."),
    ],
)
def test_what_the_app_told_a_model_is_said_to_the_user_in_their_language(
    text: str, english: str, japanese: str
) -> None:
    assert told_words(text, Catalogue("en")) == (english or text)
    assert told_words(text, Catalogue("ja")) == japanese


@pytest.mark.parametrize(
    ("operation", "summary"),
    [
        ("file_ops.read_file", "1–38/38"),
        ("mcp.shop.count", "4"),
        ("mcp.shop.accept", "accepted"),
        ("mcp.shop.find", "there is no tea"),
        ("mcp.shop.exit", "exit 1"),
        ("shell.run", "SIGTERM · 0.3s"),
    ],
)
def test_what_a_server_or_a_program_says_itself_stays_as_it_is(
    operation: str, summary: str
) -> None:
    assert figures_words(operation, summary, Catalogue("ja")) == summary
