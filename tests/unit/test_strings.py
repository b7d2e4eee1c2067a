"""The app's own words: the same entries in both languages, one voice in Japanese."""

from __future__ import annotations

import re

from duckflow_tui.words.catalogue import entries

#: How a sentence ends in polite style; labels are short, nominal and have no full stop.
POLITE = re.compile(r"(です|ます|でした|ました|ません|ませんでした|ください|か)$")
PLAIN = re.compile(r"(ない|だ|である|(?<!まし)(?<!でし)た)$")


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
