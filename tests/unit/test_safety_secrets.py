"""Secrets stay out of logs, exports and error texts (promise 7)."""

from __future__ import annotations

import base64
import io
import json
import logging
import string
import subprocess
import sys
import time
from random import Random
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duckflow_tui.safety.secrets import (
    REDACTED,
    RedactingFilter,
    Redactor,
    holds_secret,
)

KEY = "k9+/Zq\"w'x\\y z=日本"


@given(st.text(min_size=8), st.text(), st.text())
def test_a_known_secret_never_gets_through(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    assert secret not in redactor.redact_text(before + secret + after).replace(REDACTED, "")


def test_a_secret_in_other_spellings() -> None:
    """As a URL, a JSON text and a Python repr spell it."""
    redactor = Redactor([KEY])
    for text, before, after in (
        (KEY, "", ""),
        (quote(KEY), "", ""),
        (quote(KEY, safe=""), "", ""),
        (json.dumps({"k": KEY}), '{"k": "', '"}'),
        (json.dumps({"k": KEY}, ensure_ascii=False), '{"k": "', '"}'),
        (repr(KEY), "'", "'"),
    ):
        assert redactor.redact_text(text) == f"{before}{REDACTED}{after}"
    assert Redactor([quote(KEY)]).redact_text(KEY) == REDACTED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("after", range(3))
def test_a_secret_among_other_bytes_in_base64(encoding: str, before: int, after: int) -> None:
    """Each character that holds nothing but bits of the secret is gone, and no other. Windows
    encodes commands from UTF-16.
    """
    for secret in ("abcdefgh", "abcdefghi", "abcdefghij"):
        raw = secret.encode(encoding)
        coded = base64.b64encode(b"~" * before + raw + b"?" * after).decode()
        begin, end = -(-8 * before // 6), 8 * (before + len(raw)) // 6
        if not after:  # what fills up the last one belongs to nothing else
            end = -(-8 * (before + len(raw)) // 6)
            end -= (before + len(raw)) % 3 > 0
        shown = Redactor([secret]).redact_text(coded)
        assert shown == f"{coded[:begin]}{REDACTED}{coded[end:]}"


def test_a_secret_turned_round_or_as_numbers() -> None:
    redactor = Redactor(["abcdefgh", "1234567"])
    for text in (
        "hgfedcba",
        "6162636465666768",
        "61 62 63 64 65 66 67 68",
        "61:62:63:64:65:66:67:68",
        r"141\142\143\144\145\146\147\150",
        "97, 98, 99, 100, 101, 102, 103, 104",
        " ".join(f"{byte:08b}" for byte in b"abcdefgh"),
    ):
        assert redactor.redact_text(text) == REDACTED
    assert Redactor(["k\xe4se{}|~"]).redact_text("6BC3A473657B7D7C7E") == REDACTED
    assert redactor.redact_text("7654321") == "7654321"  # one that is shorter is not looked for so


@pytest.mark.parametrize(
    "between",
    [
        "\n",
        "\r\n",
        "\n   42\t",
        '" +\n    "',
        " \\\n",
        "\\n",
        "\n+",
        "\n> ",
        " ",
        "-\n-",
    ],
)
@pytest.mark.parametrize("pieces", [2, 5])
def test_a_known_secret_in_pieces_over_several_lines(between: str, pieces: int) -> None:
    secret = "q7Lr2Vx9-Tb4Nw8Kd_A1sZ"
    size = -(-len(secret) // pieces)
    text = between.join(secret[at : at + size] for at in range(0, len(secret), size))
    assert Redactor([secret]).redact_text(f"a {text} b") == f"a {REDACTED} b"


@pytest.mark.parametrize("text", ["use {} here", "api_key: {}\n", "a\x1b[1mb {}\x1b[0m c"])
@pytest.mark.parametrize("colour", ["\x1b[01;31m\x1b[K", "\x1b[m", "\x1b(B", "\x1b]0;a\x07"])
def test_a_key_with_colours_inside_is_masked_whole(text: str, colour: str) -> None:
    """As ``grep --color`` marks a part of it."""
    key = "q8Zk3vT1pLm9XyR2bNc7WdJ4hGf6Us0E"
    redact = Redactor([key] if "api_key" not in text else ()).redact_text
    for at in (1, 7, 8, 16, 24, 31):
        marked = f"{key[: at - 1]}{colour}{key[at - 1]}\x1b[m{key[at:]}"
        begin = colour if at == 1 else ""  # what stands before the key stays
        assert redact(text.format(marked)) == text.format(begin + REDACTED)
        assert redact(text.format(key)) == text.format(REDACTED)


def test_words_that_a_short_password_is_made_of_stay() -> None:
    text = "correct\nhorse\nbattery"
    assert Redactor(["correct horse"]).redact_text(text) == text


def test_the_longer_of_two_secrets_goes_whole() -> None:
    assert Redactor(["abcdefgh", "abcdefgh-ijkl"]).redact_text("<abcdefgh-ijkl>") == f"<{REDACTED}>"


RANDOM = Random(7)
LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
BASE64 = LETTERS + "+/"
URL_SAFE = LETTERS + "-_"


def make_key(length: int, alphabet: str = LETTERS) -> str:
    """Another key each time, the same in each run."""
    return "".join(RANDOM.choice(alphabet) for _ in range(length))


#: Where a key stands, with ``{}`` in its place, and one that could stand there.
PLACES = [
    ("export QUUX_API_KEY={}", make_key(16)),
    ('ZORB_SECRET="{}"', make_key(20)),
    ("token: {}", make_key(24)),
    ('{{"apiKey": "{}"}}', make_key(32)),
    ('{{"auth": {{"value": "{}"}}}}', make_key(28)),
    ("password = '{}'", make_key(16, LOWER)),
    ('client_secret: "{}"', make_key(40, URL_SAFE)),
    ("--token {}", make_key(20)),
    ("--api-key={}", make_key(32, HEX)),
    ('curl -H "X-Frob-Key: {}"', make_key(22)),
    ("Authorization: Bearer {}", make_key(32, HEX)),
    ("authorization: Token {}", make_key(40, HEX)),
    ("Authorization: Basic {}", make_key(28, BASE64) + "=="),
    ("'Bearer {}'", make_key(43, URL_SAFE)),
    ("Cookie: theme=dark; sid={}; lang=en", make_key(26)),
    ("Set-Cookie: connect.sid={}; Path=/; HttpOnly", f"s%3A{make_key(32)}.{make_key(30)}"),
    (".example.org\tTRUE\t/\tFALSE\t1799999999\tsession\t{}", "hunter2"),
    ("machine example.org login bob password {}", "hunter2"),
    ("machine example.org\n  login bob\n  password {}", make_key(14)),
    ("https://{}@example.org/x", "bob:hunter2"),
    ("postgres://{}@db/x", "app:s3cret!"),
    ("https://{}@git.example.org/a.git", make_key(24)),
    ("https://example.org/cb?code={}&x=1", make_key(30)),
    ("wss://example.org/?sig={}", make_key(44, HEX)),
    ("jdbc:foo://h/db?user=a&password={}", make_key(14)),
    ("Server=h;Uid=a;Pwd={};", make_key(16)),
    ('$env:FOO_PASSWORD = "{}"', make_key(18)),
    ("SetEnv DB_PASS {}", make_key(16)),
    ("SSHPASS={} ssh host", make_key(12)),
    ("<password>{}</password>", make_key(17)),
    ('<add key="ApiSecret" value="{}" />', make_key(25)),
    ("const accessToken = `{}`;", make_key(33, URL_SAFE)),
    ('api_key: str = "{}"', make_key(30)),
    ('os.environ["MY_TOKEN"] = "{}"', make_key(21)),
    ("define('AUTH_KEY', '{}');", make_key(64, LETTERS + "!@#$%^*")),
    ("//registry.example.org/:_authToken={}", make_key(36)),
    ("- name: WEB_TOKEN\n  value: {}", make_key(24)),
    ("secret_key_base: |\n  {}", make_key(64, HEX)),
    ("deploy --password \\\n  {}", make_key(16)),
    ('privateKeyPass => "{}"', make_key(19)),
    ('"auths": {{"r.example": {{"auth": "{}"}}}}', make_key(40, BASE64)),
    ('conn.set_password("{}")', make_key(15)),
    ('credentials: {{id: 7, hash: "{}"}}', make_key(32)),
    ("passphrase={}", make_key(30, string.ascii_letters)),
    ("the key for the printer is {}", make_key(24)),
    ("Your new token: {}", make_key(40, LOWER)),
    ("APIキー：{}", make_key(32)),
    ("パスワードは {} です", make_key(16)),
    ("zx_{} alone", make_key(36)),
    ("qq-{}", f"live-{make_key(32)}"),
    ("acme_{}", f"pat_{make_key(22)}_{make_key(40)}"),
    ("XT.{}", f"{make_key(22)}.{make_key(43, URL_SAFE)}"),
    ("AGE-SECRET-{}", f"KEY-1{make_key(58, UPPER)}"),
    ("{} alone", f"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiI{make_key(20)}.{make_key(43, URL_SAFE)}"),
]  # fmt: skip

#: Random or about keys, and none.
ORDINARY = [
    f"commit {make_key(40, HEX)}",
    f"{make_key(40, HEX)} fix token refresh",
    f"{make_key(7, HEX)} auth: rotate keys",
    f"* {make_key(10, HEX)} (HEAD) token: drop it",
    f"{make_key(40, HEX)} rotate the token\n{make_key(40, HEX)} and the key",
    f"Merge {make_key(7, HEX)} {make_key(7, HEX)}",
    f"index {make_key(7, HEX)}..{make_key(7, HEX)} 100644",
    f"fix: keys of the store ({make_key(40, HEX)})",
    "id: 123e4567-e89b-12d3-a456-426614174000",
    "token: 123e4567-e89b-12d3-a456-426614174000",
    "SESSION_KEY=123e4567-e89b-12d3-a456-426614174000",
    f'icon = "data:image/png;base64,iVBORw0KGgo{make_key(400, BASE64)}"',
    f'icon = "data:image/png;base64,{make_key(60, BASE64)}/Key/{make_key(60, BASE64)}"',
    f'src="data:image/gif;base64,R0lGODlh{make_key(90, BASE64)}=="',
    f'"integrity": "sha512-{make_key(86, BASE64)}=="',
    f"sha256:{make_key(64, HEX)}",
    f'"checksum": "{make_key(64, HEX)}"',
    f"{make_key(76, BASE64)}\n{make_key(76, BASE64)}",
    "token = read_token_from(header2values)",
    "def test_a_token_of_a_user_is_renewed_after_30_days() -> None:",
    "tests/unit/test_safety_secrets.py::test_keys_in_their_places[sk-None]",
    "password = getpass.getpass('Password: ')",
    "AuthenticationMiddlewareConfigurationFactory",
    "keyboardInterruptHandler2Factory",
    "self._token_count_by_model_and_role = {}",
    "primary_key=True, foreign_key='users.id'",
    "MAX_TOKENS=16000",
    'api_key_env = "OPENAI_API_KEY"',
    'token: "${{ secrets.GITHUB_TOKEN }}"',
    "API_KEY=your-api-key-goes-here",
    "password: changeme12345678",
    'token="aaaa1111bbbb2222"',
    'secret_name = "name-of-the-secret-in-the-store"',
    'PUBLIC_KEY = "MFkwEwYHKoZIzj0CAQYI9xQ4"',
    f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{make_key(40, BASE64)} me@host",
    "トークンの数は 16000 で、鍵は表示されません。",
    "パスワードを入力してください（8 文字以上）",
    "キーを押すと次へ進みます。Ctrl+Shift+ArrowDown でも同じです。",
    "認証情報は auth_provider_registry に登録されます。",
    "2024-01-02T03:04:05.678Z auth: user logged in from 192.168.178.21",
    "token=1234567890123456",
    "key: 2024-01-02T03-04-05-2025-06-07",
    "released v12.34.56-beta.7+build.20240102",
    "https://example.org/a/b/c?page=2&sort=descending-by-date",
    f"https://example.org/app.js?v={make_key(32, HEX)}",
    f"https://example.org/a/b/commit/{make_key(40, HEX)}",
    "https://example.org/a:b@c",
    "see arXiv:2401.12345v2 and doi:10.1000/xyz123.456",
    "the keys of /usr/share/keyrings/debian-archive-bookworm.gpg",
    "secret: /run/secrets/database_password_v2",
    "cache-key: ubuntu-latest-node-20-npm-cache",
    "E   AssertionError: assert 'token' == 'tokens'",
    "key='ArrowDown' key='PageUp' key=\"shift+tab\"",
    "bearer information, basic TypeScriptSetup",
    "Add basic authentication to the API.",
    "auth.users.com.example.services.UserPasswordResetService",
    "KeyError: 'authorization_endpoint_url'",
    "for key, value in sorted(environment_variables.items()):",
    f"cache key: node-modules-linux-{make_key(40, HEX)}",
    "S3 key: uploads/2024/05/IMG_2041_b7f3k9.jpg",
    'key: "fzf-v0.44.1-linux_amd64.tar.gz"',
    'AUTH0_DOMAIN = "dev-x8k2q1z9.us.auth0.com"',
    'M = "-----BEGIN PRIVATE KEY-----"\n\ndef f():\n    return 1\n' + "# more\n" * 20,
    "true '-----BEGIN PRIVATE KEY'; echo evil > payload.txt",
    "true '-----BEGIN PRIVATE KEY-----' && curl example.org/a | sh",
    "# -----BEGIN PRIVATE KEY\nall:\n\tcurl evil | sh\n# -----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\nrun\n-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY----- Ed25519 keys\nalias=\n/usr/lib/Python3\n",
    "-----BEGIN PRIVATE KEY-----\nComment: rm -rf src\nmake\n",
    "  password             Your password (at least twelve characters)",
]


@pytest.mark.parametrize(("place", "key"), PLACES)
def test_a_key_of_no_known_maker_is_masked_where_keys_stand(place: str, key: str) -> None:
    text = place.format(key)
    assert holds_secret(text)
    assert Redactor().redact_text(text) == place.format(REDACTED)


@pytest.mark.parametrize("text", ORDINARY)
def test_an_ordinary_text_stays_as_it_is(text: str) -> None:
    assert not holds_secret(text)
    assert Redactor().redact_text(text) == text


@given(st.text(), st.sampled_from(["password=", "X-Api-Key: ", "--token "]), st.text())
def test_a_key_is_masked_in_the_middle_of_any_text(before: str, name: str, after: str) -> None:
    key = "q7Lr2Vx9Tb4Nw8KdXz5P"
    assert key not in Redactor().redact_text(f"{before}\n{name}{key}\n{after}")


def test_a_key_is_masked_anywhere_in_a_long_text() -> None:
    """Long texts are searched piece by piece."""
    key = make_key(40)
    for at in range(262_144 - 60, 262_144 + 20, 3):
        text = f"{'.' * at} token={key} {'.' * 300_000}"
        assert Redactor().redact_text(text) == text.replace(key, REDACTED)
    long = make_key(20_000)
    assert Redactor().redact_text(f"{'.' * 262_100} token={long}").endswith(f"token={REDACTED}")


@pytest.mark.parametrize(
    "unit",
    [
        *("-eyJ", "-eyJaaaaaaaaaa", "A_KEY=", "A1bcdefgh_KEY=", "api_key: ", "key/", "Key"),
        *("key\n", "://", "?a=", "a_a1B", "cookie: a=", "-----BEGIN PRIVATE KEY", "q7Lr"),
        *("machine a login a ", "b64KEY/aB3", "-----BEGIN PRIVATE KEY-----\na-", "a-aA1b\n"),
        *(
            "-----BEGIN PRIVATE KEY-----" + r"\n" * 9_000 + "-----END PRIVATE KEY-----",
            "q7Lr2Vx9Tb4Nw8Kd\n",
        ),
        *("-----END PRIVATE KEY-----\naA1b\n", " " * 500 + "-----END PRIVATE KEY-----", "1\n+"),
    ],
)
def test_no_text_takes_longer_than_its_length_explains(unit: str) -> None:
    """A file or a model may write what begins like a key a million times."""
    secret = "K" + make_key(30)
    text = f"{unit * (400_000 // len(unit))} \ntoken={secret}"
    began = time.process_time()
    shown = Redactor([make_key(40), "q7Lr" * 8]).redact_text(text)
    assert time.process_time() - began < 1.0
    assert secret not in shown


LINE, NEXT = make_key(64, BASE64), make_key(64, BASE64)

#: Private keys with what stands around their lines, with ``{}`` in the place of each.
PRIVATE = [
    ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n{}\n-----END ENCRYPTED PRIVATE KEY----- b", [LINE]),
    ("a -----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\ncut off here", [LINE]),
    (
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nComment: mine\n\n{}\n{}\n={}\n"
        "-----END PGP PRIVATE KEY BLOCK-----",
        [LINE, "Qm==", "aB1x"],
    ),
    (
        "-----BEGIN RSA PRIVATE KEY-----\n+Proc-Type: 4,ENCRYPTED\n+DEK-Info: AES-128-CBC,5A\n+\n"
        "+{}\n+{}\n+{}\n+-----END RSA PRIVATE KEY-----\n+# end",
        [LINE, NEXT, "aB=="],
    ),
    (
        r'{{"key": "-----BEGIN PRIVATE KEY-----\{}\n{}\n-----END PRIVATE KEY-----\n", "a": 1}}',
        ["n" + LINE, "q7Lr2Vx9T="],
    ),
    (
        "   9\t-----BEGIN PRIVATE KEY-----\n  10\t{}\n  11\t{}\n  12\t-----END PRIVATE KEY-----",
        [LINE, "q7Lr2Vx9T="],
    ),
    ("true '-----BEGIN PRIVATE KEY----- {}'; echo evil > out.txt", [LINE]),
    ("'-----BEGIN PRIVATE KEY-----\\n'\n    + '{}'\nend", [LINE]),
    ("a.pem:1:-----BEGIN PRIVATE KEY-----\na.pem:2:{}\nb.py:1:end", [LINE]),
    ("[9 lines left out]\n{}\n-----END PRIVATE KEY-----", [LINE]),
    (
        "-----BEGIN PRIVATE KEY-----\n{}\nSome words, getUserById2() and\n/usr/lib/Python3/site\n"
        "{}\n-----END PRIVATE KEY-----\n\nsha512-" + make_key(86, BASE64),
        [LINE, NEXT],
    ),
    ("-----BEGIN PRIVATE KEY-----\n{}\n" + "other words\n" * 60 + NEXT, [LINE]),
    (NEXT + "\nother words" * 60 + "\n{}\n-----END PRIVATE KEY-----", [LINE]),
    (
        "-----BEGIN PRIVATE KEY-----\n" + "other words\n" * 60 + "{}\n-----END PRIVATE KEY-----",
        [LINE],
    ),
]


@pytest.mark.parametrize(("text", "lines"), PRIVATE)
def test_of_a_private_key_its_lines_are_masked(text: str, lines: list[str]) -> None:
    """And no other text: not its first and last line, nor what stands between and around them."""
    assert holds_secret(text.format(*lines))
    assert Redactor().redact_text(text.format(*lines)) == text.format(*[REDACTED] * len(lines))


def test_a_long_line_of_a_private_key_is_masked_whole() -> None:
    for length in (590, 600, 610, 50_000):
        text = f"-----BEGIN PRIVATE KEY-----\n{{}}\n{'other words ' * 9}{{}}\nend"
        keys = make_key(length, BASE64), make_key(64, BASE64)
        assert Redactor().redact_text(text.format(*keys)) == text.format(REDACTED, REDACTED)


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("between", ["\n", "\n+", " ", "\\n", '",\n  "'])
def test_a_private_key_in_short_lines_is_masked(width: int, between: str) -> None:
    key = make_key(204)
    lines = between.join(key[at : at + width] for at in range(0, len(key), width))
    shown = Redactor().redact_text(f"-----BEGIN PRIVATE KEY-----\n{lines}\nother words")
    assert not any(key[at : at + width] in shown for at in range(0, len(key) - width, width))
    assert shown.endswith("\nother words")


@pytest.mark.parametrize("prefix", ["", "+", "> ", "  12 | ", "a.pem:7:", "a.pem-7-"])
def test_a_private_key_that_is_cut_off_stays_hidden(prefix: str) -> None:
    """At any place, with what is left of it before the cut or behind it."""
    choose = Random(3).choice
    lines = ["".join(choose(BASE64) for _ in range(length)) for length in (64, 64, 64, 20)]
    lines = ["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"]
    text = "\n".join(prefix + line for line in lines)
    for cut in range(len(prefix + lines[0]), len(text), 7):
        for part in (f"a\n{text[:cut]}\n[cut]", f"[cut]\n{text[cut:]}\nend"):
            shown = Redactor().redact_text(part)
            assert shown.startswith(part[:2])
            assert shown.endswith(part[-4:])
            assert not any(
                line[at : at + 20] in shown for line in lines[1:-1] for at in (0, len(line) - 20)
            )


def test_short_secrets_only_as_whole_words() -> None:
    redactor = Redactor(["test"])
    assert redactor.redact_text("tests/test.py: test") == f"tests/{REDACTED}.py: {REDACTED}"


def test_the_log_gets_no_secret() -> None:
    """Promise 7: not in the message, its arguments, a traceback or a stack."""
    redactor = Redactor(["s3cret-value", "another-one"])
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(RedactingFilter(redactor))
    log = logging.Logger("test")
    log.addHandler(handler)
    log.warning("key %s and %d%%", "s3cret-value", 5)
    try:
        raise ValueError("bad s3cret-value")
    except ValueError:
        log.exception("failed", stack_info=True)
    log.error("another-one, no arguments: 100%")
    text = out.getvalue()
    assert "s3cret" not in text
    assert "another" not in text
    assert f"key {REDACTED} and 5%" in text
    assert f"ValueError: bad {REDACTED}" in text
    assert "Traceback" in text


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux closes a process")
def test_a_shielded_process_is_not_dumpable() -> None:
    """The system's own answer, 0 for closed; 3 is PR_GET_DUMPABLE of linux/prctl.h."""
    program = (
        "import ctypes; from duckflow_tui.safety.secrets import shield_process; "
        "get = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0); "
        "print(get(), shield_process(), get())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout.split() == ["1", "True", "0"]
