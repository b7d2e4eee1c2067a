"""The app's own words: the same entries in both languages, one voice in Japanese."""

from __future__ import annotations

import re

from duckflow_tui.words.catalogue import entries

#: How a sentence ends in polite style; labels are short, nominal and have no full stop.
POLITE = re.compile(r"(です|ます|でした|ました|ません|ませんでした|ください|か)$")
PLAIN = re.compile(r"(ない|だ|である|(?<!まし)(?<!でし)(?<!あな)た)$")


def test_both_languages_have_the_same_entries() -> None:
    english, japanese = entries("en"), entries("ja")
    assert english.keys() == japanese.keys()
    for key, text in japanese.items():
        fields = set(re.findall(r"\{\w+\}", text))
        assert fields <= set(re.findall(r"\{\w+\}", english[key])), key


def test_japanese_sentences_are_polite() -> None:
    wrong: list[str] = []
    for key, text in entries("ja").items():
        if text.endswith("。"):
            ends = [re.sub(r"（[^（）]*）$", "", part) for part in text.split("。")[:-1]]
            polite = all(POLITE.search(end) or end.endswith("}") for end in ends)
        else:
            polite = not PLAIN.search(text.rstrip("）"))
        if not polite:
            wrong.append(f"{key}: {text}")
    assert wrong == []


def test_japanese_has_one_colon_and_one_word_for_a_folder() -> None:
    wrong = [key for key, text in entries("ja").items() if re.search(r"：|フォルダ(?!ー)", text)]
    assert wrong == []


#: Words that Japanese screens do not use, with the one that they use for the same thing.
ONE_WORD: dict[str, str] = {
    r"返事待ち|返答待ち|確認待ち|判断待ち|答え待ち|(返事|返答|答え)を待って": "承認待ち / 回答待ち",
    r"要求(?!どおり)": "要件 / リクエスト",
    r"段階": "ステップ / フェーズ",
    r"飛ば[さしすせ]": "スキップ",
    r"作業を(止め|中止)|ここで(止め|中止)": "停止",
    r"文脈": "コンテキスト",
    r"別の案|別案": "代案",
    r"検査|判定方法": "チェック",
    r"(この|新しい版の)プログラム|プログラム(の終了|付属)": "アプリ",
    r"(待っている|待つ|送った|最後の|書きかけの|番目の|この)文(?![字章面])": "メッセージ",
    r"(?<!な)いま(?![すせし])": "今",
    r"ユーザー(?!名)": "あなた",
    r"計器": "調子",
    r"覚え書き|書き留め": "メモ",
    r"(次|新しい)の?回(?!答)": "次のターン / 次の試行",
    r"この(環境|PC|コンピューター)の": "このマシン",
    r"再開始": "再起動",
    r"／": "/",
}
#: How English speaks of the key of a server; all other keys are of the keyboard.
KEY_OF_A_SERVER = re.compile(r"\bAPI key|\b(the|its|this|another) key\b|'s key\b|\bkey from\b")


def test_japanese_has_one_word_for_one_thing() -> None:
    wrong = [
        f"{key}: {text} → {use}"
        for key, text in entries("ja").items()
        for variant, use in ONE_WORD.items()
        if re.search(variant, text)
    ]
    assert wrong == []


def test_japanese_tells_the_key_of_a_server_from_one_of_the_keyboard() -> None:
    wrong = [
        f"{key}: {text}"
        for key, text in entries("ja").items()
        if KEY_OF_A_SERVER.search(entries("en")[key])
        and re.search(r"(?<!API )(?<!ス)キー(?!リング|ボード|操作|マ)", text)
    ]
    assert wrong == []
