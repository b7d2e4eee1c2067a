"""The app's own words: the same entries in both languages, one voice in Japanese."""

from __future__ import annotations

import re

from duckflow_tui.words.catalogue import Catalogue, load_entries

#: How a sentence ends in polite style; labels are short, nominal and have no full stop.
POLITE = re.compile(r"(です|ます|でした|ました|ません|ませんでした|ください|か)$")
PLAIN = re.compile(r"(ない|だ|である|(?<!まし)(?<!でし)(?<!あな)た)$")


def test_both_languages_have_the_same_entries() -> None:
    english = load_entries("en")
    japanese = {k: v for k, v in load_entries("ja").items() if not k.startswith("errno.")}
    assert english.keys() == japanese.keys(), "but for what the system says in English itself"
    for key, text in japanese.items():
        fields = set(re.findall(r"\{(\w+)", text))
        assert fields <= set(re.findall(r"\{(\w+)", english[key])), key
        assert not re.search(r"\{\w+:", text), key  # which has no plural


def test_what_a_language_leaves_out_is_not_said_in_english() -> None:
    assert Catalogue("en")("gate.joint") == " "
    assert Catalogue("ja")("gate.joint") == ""


#: The params that are numbers, some with commas.
COUNTS = {
    "added", "at", "attempts", "before", "after", "calls", "count", "counted", "damaged",
    "exchanges", "files", "found", "kept", "left", "limit", "lines", "longest", "loops", "met",
    "missing", "more", "most", "outcomes", "refused", "removed", "reply", "results", "sent",
    "steps", "tasks", "tokens", "total", "tries", "window",
}  # fmt: skip
#: What ends in s and is no noun in the plural.
NO_PLURAL = {"address", "has", "its", "less", "process", "stays", "this", "waits", "was"}


def test_english_has_the_noun_that_fits_for_every_count() -> None:
    """With 0, 1 and 2 of all that is counted; another word may stand before the noun."""
    entry = {key: text for key, text in load_entries("en").items() if "{" in text}
    spec = {s for text in entry.values() for s in re.findall(r"\{\w+:([^}]*)\}", text)}
    assert all(len(s.split("|")) == 2 for s in spec)
    singular = {one.split()[-1] for one, _, _ in (s.partition("|") for s in spec) if " " not in one}
    wrong: list[str] = []
    for key, text in entry.items():
        names = re.findall(r"\{(\w+)", text)
        for count in ("0", "1", "2"):
            said = Catalogue("en")(key, **{n: count if n in COUNTS else "X" for n in names})
            for noun, last in re.findall(rf"(?<!P)\b{count} (?=(\w+)(?: (\w+))?)", said):
                words = {noun, last} - {""}
                plural = {w for w in words if re.fullmatch(r"[a-z]{2,}[^s]s", w)} - NO_PLURAL
                one = noun in singular and not last.endswith("s")
                if plural if count == "1" else one:
                    wrong.append(f"{key}: {said}")
    assert wrong == []


#: Names of operations, fields and parts of the program. Names that a user writes stay: of
#: settings, of variables of the environment, of the rules of ``--allow``.
INTERNAL = re.compile(
    r"\b(?:file_ops|plan_tool|task_tool|task_loop|shell|git|memory)\.[a-z_]+"
    r"|\b[a-z]+_(?:id|args|request|call|loop|tool|state|calls|score|level)\b"
    r"|\b(?:evaluator|pydantic|payload|enum|traceback|dispatch|None|null)\b",
)
WRITTEN_BY_USERS = re.compile(
    r"\b(?:shell|files|limits|execution|roles|sandbox)\.(?:timeout_s|max_\w+|undo_bytes)"
    r"|\b(?:schema_tool|query_tool|max_model_calls)\b"
)


def test_no_internal_name_is_on_the_screen() -> None:
    wrong = [
        f"{language} {key}: {text}"
        for language in ("en", "ja")
        for key, text in load_entries(language).items()
        if INTERNAL.search(WRITTEN_BY_USERS.sub("", re.sub(r"\{\w+\}", "", text)))
    ]
    assert wrong == []


#: Names of what a key does, which are no sentences.
LABELS = ("diff.hint_cut", "keys.toggle_wrap")


def test_japanese_sentences_are_polite() -> None:
    wrong: list[str] = []
    for key, text in load_entries("ja").items():
        if text.endswith("。"):
            ends = [re.sub(r"（[^（）]*）$", "", part) for part in text.split("。")[:-1]]
            polite = all(POLITE.search(end) or end.endswith("}") for end in ends)
        else:
            polite = key in LABELS or not PLAIN.search(text.rstrip("）"))
        if not polite:
            wrong.append(f"{key}: {text}")
    assert wrong == []


def test_japanese_has_one_colon_and_one_word_for_a_folder() -> None:
    wrong = [
        key for key, text in load_entries("ja").items() if re.search(r"：|フォルダ(?!ー)", text)
    ]
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
    r"(?<![必重主需])要[るりら]": "必要",
    r"利用者名": "ユーザー名",
    r"拒ま": "拒否",
    r"判断回数": "ループ",
    r"チャットの?圧縮": "会話の圧縮",
    r"返答[のを]修復": "返答の形式を修正",
    r"読み取れない行": "解析できない",
    r"変数、(パターン|置換)": "変数、ワイルドカード、コマンド置換",
}
#: How English speaks of the key of a server; all other keys are of the keyboard.
KEY_OF_A_SERVER = re.compile(r"\bAPI key|\b(the|its|this|another) key\b|'s key\b|\bkey from\b")


def test_japanese_has_one_word_for_one_thing() -> None:
    wrong = [
        f"{key}: {text} → {use}"
        for key, text in load_entries("ja").items()
        for variant, use in ONE_WORD.items()
        if re.search(variant, text)
    ]
    assert wrong == []


def test_japanese_tells_the_key_of_a_server_from_one_of_the_keyboard() -> None:
    japanese = load_entries("ja")
    wrong = [
        f"{key}: {japanese[key]}"
        for key, text in load_entries("en").items()
        if KEY_OF_A_SERVER.search(text)
        and re.search(r"(?<!API )(?<!ス)キー(?!リング|ボード|操作|マ)", japanese[key])
    ]
    assert wrong == []
