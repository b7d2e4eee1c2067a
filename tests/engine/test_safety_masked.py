"""What looks like a key in a result reaches no model, journal or export; what only looks random
does.
"""

from __future__ import annotations

import base64
from pathlib import Path
from random import Random
from string import ascii_letters, digits
from urllib.parse import quote

import pytest
from support.bench import Bench
from support.mcp_servers import hostile
from support.mcp_servers import served as served_tools
from support.session import action, decision, done, script, session

from duckflow_tui.safety.secrets import REDACTED, Redactor
from duckflow_tui.session.export import export_lines
from duckflow_tui.state.operations import ApprovalMode, Outcome
from duckflow_tui.words.catalogue import Catalogue

READ = "file_ops.read_file"
WRITE = "file_ops.write_file"
EDIT = "file_ops.edit_file"

KEYS = {
    "prefixed": "qq-live-q7Lr2Vx9Tb4Nw8KdXz5P",
    "header": "Authorization: Bearer Jf83kd92LsPq0Zx7",
    "query": "https://example.org/x?code=Wm4Xc7Vb2NnQ8Zr0Kd",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmn",
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow0QxQ\n-----END RSA PRIVATE KEY-----",
    "env": "SERVICE_TOKEN=q8Zr0Wm4Xc7Vb2Nn",
    "quoted": 'api_key: "9f86d081884c7d659a2feaa0c55ad015"',
    "code": "DB_PASSWORD = 'Xk29sl3LLq0dkfie'",
}
HIDDEN = (
    "q7Lr2Vx9",
    "Jf83kd92",
    "Wm4Xc7Vb",
    "eyJzdWIi",
    "MIIEow0QxQ",
    "q8Zr0Wm4",
    "9f86d081",
    "Xk29sl3L",
)

#: Random, and no key.
PLAIN = [
    "commit 3da541559918a808c2402bba5012f6c60b27661c",
    '"integrity": "sha512-qT9Xl0a4Zr7Wm2Nn8Vb3Cc5Kk1Jj6Hh0Gg=="',
    "id: 123e4567-e89b-12d3-a456-426614174000",
    "SESSION_KEY=123e4567-e89b-12d3-a456-426614174000",
    'checksum = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"',
    "token = read_token_from(header2values)",
    'token: "${{ secrets.GITHUB_TOKEN }}"',
    "MAX_TOKENS=16000",
    'PUBLIC_KEY = "MFkwEwYHKoZIzj0CAQYI9xQ4"',
    'secret_name = "name-of-the-secret-in-the-store"',
]


async def test_keys_in_a_file_reach_no_request_journal_or_export(tmp_path: Path) -> None:
    """Covers safety.md, promise 7, for the content of files."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("\n".join([*KEYS.values(), *PLAIN, "the end"]))
    replies = script(decision("I read.", action(READ, path="notes.txt")), done())
    async with session(tmp_path, replies, mode="trusted") as made:
        await made.turn("read it")
        text = made.results()[0].result.text
        sent = [request.raw.decode() for request in made.server.requests]
        id_ = made.session_id
    assert text.count(REDACTED) >= len(KEYS)
    assert "is not sent" in text
    assert "the end" in text
    for plain in PLAIN:
        assert plain in text
    folder = next((tmp_path / "home" / "state").rglob(id_))
    kept = "".join(path.read_text() for path in folder.glob("journal-*"))
    shown = "".join(
        line
        for kind in ("json", "markdown")
        for line in export_lines(folder, kind, Catalogue("en"), Redactor().redact_text)
    )
    for hidden in HIDDEN:
        assert hidden not in text
        assert all(hidden not in body for body in sent)
        assert hidden not in kept
        assert hidden not in shown


#: What programs put before and behind each line of a file.
AROUND = {
    "compose.log": ("web-1  | ", ""),
    "cluster.log": ("2026-11-27T10:00:00Z ", ""),
    "blame.txt": ("1f0c9ab2 (Ann Lee 2026-11-27 10:00:00 +0000 7) ", ""),
    "setup.sh": ('echo "', '" >> key.pem'),
    "page.html": ("", "<br>"),
    "found.txt": ("my file.pem:3:", ""),
    "colours.txt": ("\x1b[32m+", "\x1b[m"),
}


async def test_a_private_key_is_masked_whatever_stands_around_its_lines(tmp_path: Path) -> None:
    """In results, requests and the journal; the text around it stays."""
    choose = Random(5).choice
    lines = ["".join(choose(f"{ascii_letters}{digits}+/") for _ in range(64)) for _ in range(4)]
    work = tmp_path / "work"
    work.mkdir()
    whole = ["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----", "the end"]
    for name, (before, behind) in AROUND.items():
        (work / name).write_text("".join(f"{before}{line}{behind}\n" for line in whole))
    replies = script(decision("I read.", *(action(READ, path=name) for name in AROUND)), done())
    async with session(tmp_path, replies, mode="trusted") as made:
        await made.turn("read them")
        results = [message.result.text for message in made.results()]
        sent = [request.raw.decode() for request in made.server.requests]
        id_ = made.session_id
    folder = next((tmp_path / "home" / "state").rglob(id_))
    kept = "".join(path.read_text() for path in folder.glob("journal-*"))
    assert len(results) == len(AROUND)
    for text in results:
        assert text.count(REDACTED) >= len(lines)
        assert "END RSA PRIVATE KEY" in text
        assert "the end" in text
    for line in lines:
        assert not any(
            part in where for where in (*results, *sent, kept) for part in (line, line[20:])
        )


KEY = "plain-Words-as-0-key/of+mine"


@pytest.mark.parametrize(
    "spelled",
    [
        KEY,
        KEY[::-1],
        KEY.encode().hex(),
        KEY.encode().hex(" ").upper().lower(),
        *(
            base64.b64encode(before + KEY.encode() + b"\n").decode()
            for before in (b"", b"x", b"xy")
        ),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        base64.b32encode(KEY.encode()).decode(),
        "".join(f"\\x{byte:02x}" for byte in KEY.encode()),
        "".join(f"\\u{byte:04x}" for byte in KEY.encode()),
        "".join(f"%{byte:02X}" for byte in KEY.encode()),
        quote(KEY, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
    ],
)
async def test_the_configured_key_comes_back_in_no_spelling(tmp_path: Path, spelled: str) -> None:
    """Reversed, in base64 or in hex a program's output gives it as little as plain."""
    (tmp_path / "out.txt").write_text(f"before {spelled} after\n")
    bench = Bench(tmp_path)
    bench.router.redact = Redactor([KEY]).redact_text
    text = (await bench.call(READ, path="out.txt")).result.text
    assert spelled not in text
    assert REDACTED in text
    assert "after" in text


def test_a_long_key_is_found_where_a_program_broke_its_line() -> None:
    key = "k" + "a1B2c3D4" * 12
    coded = base64.encodebytes(key.encode()).decode()
    assert coded.count("\n") > 1
    shown = Redactor([key]).redact_text(coded)
    assert shown.startswith(REDACTED)
    assert len(shown) < 20


async def test_a_server_that_gives_the_key_back_shows_it_masked(tmp_path: Path) -> None:
    async with served_tools(tmp_path, hostile()) as tools:
        tools.bench.router.redact = Redactor([KEY]).redact_text
        message = await tools.run("mcp.hostile.echo", text=f"your key is {KEY}")
    assert KEY not in message.result.text
    assert REDACTED in message.result.text


async def test_the_mark_does_not_take_the_place_of_a_key_in_a_file(tmp_path: Path) -> None:
    """The model writes what it saw; the key in the file stays."""
    held = f"a = 1\n{KEYS['env']}\n"
    (tmp_path / "conf.ini").write_text(held)
    bench = Bench(tmp_path, mode=ApprovalMode.TRUSTED)
    bench.router.redact = Redactor().redact_text
    await bench.call(READ, path="conf.ini")
    written = f"a = 2\nSERVICE_TOKEN={REDACTED}\n"
    message = await bench.call(WRITE, path="conf.ini", content=written)
    assert message.result.outcome is Outcome.ERROR
    assert "would destroy" in message.result.text
    assert (tmp_path / "conf.ini").read_text() == held
    await bench.call(EDIT, path="conf.ini", edits=[{"old": "a = 1", "new": "a = 2"}])
    assert (tmp_path / "conf.ini").read_text() == held.replace("a = 1", "a = 2")
    plain = await bench.call(WRITE, path="words.md", content=f"It says {REDACTED}.\n")
    assert plain.result.outcome is Outcome.OK


def read_kept(folder: Path) -> list[bytes]:
    """All files that the program wrote below its home."""
    return [f.read_bytes() for f in (folder / "home").rglob("*") if f.is_file()]


async def test_the_whole_of_a_long_output_is_kept_without_keys(tmp_path: Path) -> None:
    """In its middle too, which no result shows, also where the text is no text."""
    key = "q7Lr2Vx9Tb4Nw8KdXz5P"
    line = "b'line of output\\xff\\n' * 90000"
    program = f"import sys; sys.stdout.buffer.write({line} + b'API_TOKEN={key}\\n' + {line})"
    work = tmp_path / "work"
    work.mkdir()
    (work / "show.py").write_text(program)
    replies = script(decision("I run it.", action("shell.run", command="python3 show.py")), done())
    async with session(tmp_path, replies, allow=("python3 show.py",)) as s:
        await s.turn("run it")
        assert s.results()[0].result.went_well
    blobs = read_kept(tmp_path)
    whole = max(blobs, key=len)
    assert whole.count(b"line of output\xff\n") == 180_000
    assert b"API_TOKEN=[redacted]\n" in whole
    assert not any(key.encode() in blob for blob in blobs)
