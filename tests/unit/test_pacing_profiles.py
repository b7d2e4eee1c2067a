"""The rules that guess the kind of a request, and who decides about it."""

from __future__ import annotations

import pytest

from duckflow_tui.goals.pacemaker import ProfileGuess, chosen, guess
from duckflow_tui.state.pace import TaskProfile as T


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("hi", T.GENERAL_CHAT),
        ("Thanks, that helps!", T.GENERAL_CHAT),
        ("こんにちは", T.GENERAL_CHAT),
        ("What is a context manager?", T.SIMPLE_QUESTION),
        ("Which Python version do we use?", T.SIMPLE_QUESTION),
        ("And geese?", T.SIMPLE_QUESTION),
        ("デコレーターとは何ですか？", T.SIMPLE_QUESTION),
        ("okay, thanks!", T.GENERAL_CHAT),
        # A favour that is asked for is an order, however it is put.
        ("ok, set x to 2", None),
        ("could you tell me the scenario?", None),
        ("Hey, would you please set x to 2?", None),
        ("シナリオを教えてくれますか?", None),
        ("シナリオを教えてもらえますか", None),
        ("fix the failing test in test_shop.py", T.DEBUGGING),
        ("The build is broken since yesterday", T.DEBUGGING),
        ("合計が合わないバグを直して", T.DEBUGGING),
        ("テストが通らないので見てください", T.DEBUGGING),
        ("explain how the module loader works in this codebase", T.CODE_ANALYSIS),
        ("Review the code in app/routes.py", T.CODE_ANALYSIS),
        ("このコードを解説してください", T.CODE_ANALYSIS),
        ("rename the file a.txt to b.txt", T.FILE_OPERATION),
        ("notes.md を削除して", T.FILE_OPERATION),
        ("implement a snake game that runs in the terminal", T.MULTI_STEP_TASK),
        ("first read the spec, then write the parser", T.MULTI_STEP_TASK),
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
    assert guess(text).profile is profile
    assert guess(text) == guess(text)


STRONG = ProfileGuess(T.DEBUGGING, strong=True)
WEAK = ProfileGuess(T.DEBUGGING, strong=False)
CHAT = ProfileGuess(T.GENERAL_CHAT, strong=True)


@pytest.mark.parametrize(
    ("user", "model", "rules", "expected"),
    [
        (T.RESEARCH, T.DEBUGGING, STRONG, (T.RESEARCH, "user")),
        (None, T.CODE_ANALYSIS, STRONG, (T.CODE_ANALYSIS, "model")),
        (None, T.SIMPLE_QUESTION, STRONG, (T.DEBUGGING, "rules")),
        (None, T.GENERAL_CHAT, STRONG, (T.DEBUGGING, "rules")),
        (None, T.GENERAL_CHAT, WEAK, (T.GENERAL_CHAT, "model")),
        (None, T.DEBUGGING, CHAT, (T.DEBUGGING, "model")),
        (None, T.SIMPLE_QUESTION, CHAT, (T.SIMPLE_QUESTION, "model")),
        (None, None, WEAK, (T.DEBUGGING, "rules")),
        (None, None, ProfileGuess(), (None, "rules")),
    ],
)
def test_who_decides(
    user: T | None, model: T | None, rules: ProfileGuess, expected: tuple[T | None, str]
) -> None:
    assert chosen(user, model, rules) == expected
