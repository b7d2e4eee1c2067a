"""The table that guesses the kind of a request for its limit of loops, and who decides about it."""

from __future__ import annotations

import pytest

from duckflow_tui.state.pace import TaskProfile as T
from duckflow_tui.work.loop_limits import choose_profile, guess_profile


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("hi", T.GENERAL_CHAT),
        ("こんにちは", T.GENERAL_CHAT),
        ("What is a context manager?", T.SIMPLE_QUESTION),
        ("デコレーターとは何ですか？", T.SIMPLE_QUESTION),
        ("fix the failing test in test_shop.py", T.DEBUGGING),
        ("合計が合わないバグを直して", T.DEBUGGING),
        ("explain how the module loader works in this codebase", T.CODE_ANALYSIS),
        ("このコードを解説してください", T.CODE_ANALYSIS),
        ("rename the file a.txt to b.txt", T.FILE_OPERATION),
        ("notes.md を削除して", T.FILE_OPERATION),
        ("implement a snake game that runs in the terminal", T.MULTI_STEP_TASK),
        ("ログイン機能を実装してください", T.MULTI_STEP_TASK),
        ("research the options for task queues", T.RESEARCH),
        ("各ライブラリを比較して", T.RESEARCH),
        ("write a poem about ducks", T.CREATIVE_WRITING),
        ("アヒルの物語を書いて", T.CREATIVE_WRITING),
        ("what are the trade-offs between the two designs?", T.COMPLEX_REASONING),
        ("この命題を証明して", T.COMPLEX_REASONING),
        ("blue elephants", None),
        ("", None),
        # Two megabytes pasted, in one word: looked at whole, it would take hours.
        pytest.param("x" * 2_000_000 + "\nexplain this module", T.CODE_ANALYSIS, id="pasted"),
    ],
)
def test_a_request_is_guessed_in_both_languages(text: str, profile: T | None) -> None:
    assert guess_profile(text) is profile


@pytest.mark.parametrize(
    ("user", "model", "rules", "expected"),
    [
        (T.RESEARCH, T.DEBUGGING, T.FILE_OPERATION, (T.RESEARCH, "user")),
        (None, T.SIMPLE_QUESTION, T.DEBUGGING, (T.SIMPLE_QUESTION, "model")),
        (None, None, T.DEBUGGING, (T.DEBUGGING, "rules")),
        (None, None, None, (None, "rules")),
    ],
)
def test_who_decides(
    user: T | None, model: T | None, rules: T | None, expected: tuple[T | None, str]
) -> None:
    assert choose_profile(user, model, rules) == expected
