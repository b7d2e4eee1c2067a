"""A conversation of some requests that changed files, to go back in."""

from __future__ import annotations

from typing import Final

from support.app_states import FakeEngine, store_with
from support.conversations import START, assistant, operation, user

from duckflow_tui.state.conversation import Message
from duckflow_tui.state.operations import FileChange

WORDS: Final = {
    "en": (
        ("The total is wrong when two discounts apply. Find out why, and mend it.", "Mended."),
        ("Add a test for three discounts\nand one for none at all", "Both pass."),
        ("Now rename cap to limit everywhere it is used", "Renamed in four files."),
        ("what does round_half_even do here", "It rounds 0.5 to the even neighbour."),
    ),
    "ja": (
        ("割引が二つ重なると合計がおかしくなります。原因を調べて直してください。", "直しました。"),
        ("割引が三つの場合と\n一つもない場合のテストを追加してください", "どちらも通ります。"),
        ("cap をすべて limit に改名してください", "4 ファイルで改名しました。"),
        ("ここで round_half_even は何をしますか", "0.5 を偶数側に丸めます。"),
    ),
}

_CHANGES: Final = {
    0: (("src/shop/pricing.py", "modify", 6, 2),),
    1: (("tests/test_pricing.py", "modify", 24, 0),),
    2: (
        ("src/shop/pricing.py", "modify", 4, 4),
        ("src/shop/receipt.py", "modify", 2, 2),
        ("docs/limits-of-discounts.md", "create", 18, 0),
    ),
}


def asked(language: str = "en") -> FakeEngine:
    """Four requests; three of them changed files."""
    store = store_with()
    messages: list[Message] = []
    for number, (text, reply) in enumerate(WORDS[language]):
        at = START + 700.0 * number
        update = {"message_id": f"msg_{number}", "at": at}
        messages.append(user(text).model_copy(update=update))
        for path, kind, added, removed in _CHANGES.get(number, ()):
            change = FileChange(path=path, kind=kind, added=added, removed=removed)
            done = operation("file_ops.edit_file", {"path": path}, changes=(change,))
            call = f"call_{len(messages)}"
            messages.append(done.model_copy(update={"call_id": call, "at": at + 60}))
        update = {"message_id": f"reply_{number}", "at": at + 90}
        messages.append(assistant(reply, number).model_copy(update=update))
    store.state.messages = messages
    return FakeEngine(store)
