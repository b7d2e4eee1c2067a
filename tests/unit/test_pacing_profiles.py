"""The rules that guess the kind of a request, and who decides about it."""

from __future__ import annotations

import pytest

from duckflow_tui.goals.pacemaker import NO_CHANGE, ProfileGuess, asked_for, chosen, guess
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


def of_a_long_paste(begin: str, between: str, end: str) -> str:
    return f"{begin}\n{'y ' * 1100}\n{between}\n{'z ' * 1100}\n{end}"


@pytest.mark.parametrize(
    "text",
    [
        "set x to 2",
        "Hello, could you please update it to 3?",
        "I'd like you to remove the flag",
        "go ahead and rename it",
        "let's bump the version",
        "you should raise the limit",
        "open a.py, and change the name",
        "x should be 2",
        "the default has to be true",
        "what is x? and set it to 2",
        "tell me why, and fix it",
        "値を変更してください",
        "設定を書き換えて",
        "xを2にして",
        "xは2であるべき",
        of_a_long_paste("why?", "what is that?", "set x to 2"),
    ],
)
def test_an_order_asks_for_a_change_whatever_is_answered(text: str) -> None:
    assert asked_for([text]) == asked_for([text], "It is 2 already.") == "change"


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "why is x 1?",
        "should x be 2?",
        "What is x?\n",
        "what is x?\nwhich file sets it?",
        "explain a.py",
        "can you tell me the time",
        "write me a poem",
        "tell me a story, and change the subject",
        "シナリオを教えて",
        "なぜ動かないのですか",
        "これはテストですか",
        "どの値がいいか",
    ],
)
def test_a_question_asks_for_words_whatever_is_answered(text: str) -> None:
    assert asked_for([text]) == asked_for([text], "I have set it. Done.") == "words"


@pytest.mark.parametrize(
    "text",
    [
        "blue elephants",
        "x to 2, ok?",
        "why not x of 2?",
        "what about 3?",
        "what if x is 3?",
        "how about 3?",
        "is it possible to have 3?",
        "are you able to have 3?",
        "do you mind 3?",
        "何か書いてくれますか",
        # Of its own text an answer gives the new one.
        "set this sentence in another tone",
        "update the following paragraph: x is 2",
        "この文章を修正して",
        # I say of myself, or of nothing that a file holds.
        "I should be 2 metres tall",
        "静かにして",
        of_a_long_paste("blue elephants", "set x to 2", "blue elephants"),
    ],
)
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("", "either"),
        ("  ", "either"),
        ("Elephants are grey.", "either"),
        ("I have set it.", "change"),
        ("We've now updated it.", "change"),
        ("The value has been changed.", "change"),
        ("設定しました。", "change"),
        ("設定しましたか", "either"),
        ("I set it already.", "either"),
        ("I have changed nothing, and put nothing in.", "either"),
        ("すでに設定しました。", "either"),
        ("Done.", "work"),
        ("ok", "work"),
        ("x is now 2", "work"),
        ("Fertig", "work"),
        ("了解です", "work"),
    ],
)
def test_where_a_request_does_not_tell_its_answer_says_what_it_was_taken_for(
    text: str, reply: str, expected: str
) -> None:
    assert asked_for([text], reply) == expected


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("timeout of 30 please", "Done, I have set it."),
        ("x to 2, ok?", "Done, I have set it."),
        ("what does x do? set it to 2", "Done, I have set it."),
        ("タイムアウトは30秒でお願いします", "はい、設定しました。"),
        ("xを2に変えてもらえますか？", "はい、設定しました。"),
        ("タイムアウトは30秒でお願いします", "はい、変えました。"),
        ("タイムアウトは30秒でお願いします", "はい、直しました。"),
        ("タイムアウトは30秒でお願いします", "はい、書き換えておきました。"),
        ("タイムアウトは30秒でお願いします", "はい、置き換えました。"),
        ("タイムアウトは30秒でお願いします", "古い値は消しました。"),
    ],
)
def test_a_weak_order_that_is_answered_by_a_claim_asks_for_a_change(text: str, claim: str) -> None:
    assert asked_for([text], claim) == "change"


@pytest.mark.parametrize(
    ("texts", "reply", "expected"),
    [
        # What is to be looked at is work, also where the answer says of a change that it was made.
        (["check a.py"], "", "either"),
        (["check a.py"], "I have changed it.", "work"),
        (["research grey things, blue elephants"], "I have changed it.", "work"),
        (["a.py を確認"], "変更しました", "work"),
        # A fault that is told is work by itself, and what the answer says does not make it less.
        (["the build is broken"], "", "work"),
        (["the build is broken"], "It is not.", "work"),
        (["the build is broken"], "I have set it.", "work"),
        (["blue elephants", "the build is broken"], "It is not.", "work"),
        (["the build is broken", "blue elephants"], "It is not.", "work"),
        # A weak word of a fault is not.
        (["blue error"], "", "either"),
        # What comes later joins, and a word that takes back leaves nothing of what was before it.
        (["hello", "set x to 2"], "", "change"),
        (["set x to 2", "and be quick"], "", "change"),
        (["set x to 2", "thanks"], "", "change"),
        (["set x to 2", "never mind"], "", "either"),
        (["set x to 2", "やめて"], "", "either"),
        (["set x to 2", "no, leave it. Set y to 2"], "", "change"),
        (["don't wait. Set x to 2"], "", "change"),
        (["the build is broken", "leave it"], "", "either"),
        (["check a.py", "leave it, blue elephants"], "I have set it.", "change"),
    ],
)
def test_the_words_of_one_request_are_read_together(
    texts: list[str], reply: str, expected: str
) -> None:
    assert asked_for(texts, reply) == expected


@pytest.mark.parametrize(
    ("reply", "says_so"),
    [
        ("x = 2 stands there already.", True),
        ("There is nothing to do.", True),
        ("No changes were made.", True),
        ("It does not need that.", True),
        ("既に2です。", True),
        ("変更の必要はありません", True),
        ("I have set it.", False),
        ("設定しました。", False),
    ],
)
def test_a_reply_says_that_it_was_so_before(reply: str, says_so: bool) -> None:
    assert bool(NO_CHANGE.search(reply)) is says_so
