"""``models``: what is known is shown, and an endpoint is asked only with ``--refresh``."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.prepared import run_program

KEY = "sk-duck-0123456789abcdef"
LISTED = [
    {"id": "a/big", "context_length": 200_000,
     "pricing": {"prompt": "0.000002", "completion": "0.000008", "input_cache_read": "0.0000005"}},
    {"id": "a/bare"},
]  # fmt: skip


@contextmanager
def listing(status: int = 200) -> Generator[tuple[str, list[str]]]:
    """A server that lists two models; its address, and the paths and keys it was asked with."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Authorization')}")
            failed = {"error": {"message": f"not for {KEY}"}}
            body = json.dumps({"data": LISTED} if status == 200 else failed).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", asked
        finally:
            server.shutdown()
            thread.join()


def models(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = {"DUCKFLOW_HOME": str(tmp_path / "home"), "LANG": "C.UTF-8", "DUCK_KEY": KEY}
    return run_program(["models", *arguments], cwd=tmp_path, environ=environ)


def test_what_an_endpoint_says_is_kept_with_its_date_when_it_is_asked_for(tmp_path: Path) -> None:
    with listing() as (url, asked):
        flags = ("--base-url", url, "--model", "a/big", "--api-key-env", "DUCK_KEY")
        before = models(tmp_path, *flags)
        assert before.returncode == 0
        assert asked == []
        assert "Window in tokens: unknown" in before.stdout
        assert (
            "input unknown, cached input unknown, cache write unknown, output unknown"
            in before.stdout
        )
        now = models(tmp_path, *flags, "--refresh")
        assert (now.returncode, now.stderr) == (0, "")
        assert asked == [f"/v1/models Bearer {KEY}"]
        after = models(tmp_path, *flags)
        for shown in (now.stdout, after.stdout):
            assert "Window in tokens: 200,000" in shown
            assert "input $2, cached input $0.5, cache write unknown, output $8" in shown
            assert "2 models, as of 20" in shown
        assert len(asked) == 1
        assert KEY not in (tmp_path / "home" / "data" / "models.json").read_text()
        japanese = models(tmp_path, *flags, "--lang", "ja").stdout
        assert "コンテキスト長（トークン）: 200,000" in japanese


@pytest.mark.parametrize("status", [401, 500])
def test_an_endpoint_that_does_not_say_leaves_what_is_known(tmp_path: Path, status: int) -> None:
    with listing() as (url, _):
        flags = ("--base-url", url, "--model", "a/big", "--api-key-env", "DUCK_KEY")
        models(tmp_path, *flags, "--refresh")
        kept = next((tmp_path / "home").rglob("models.json")).read_bytes()
    with listing(status) as (url, _):
        flags = ("--base-url", url, "--model", "a/big", "--api-key-env", "DUCK_KEY", "--refresh")
        failed = models(tmp_path, *flags)
    assert failed.returncode == 1
    assert "127.0.0.1" in failed.stderr
    assert KEY not in failed.stderr + failed.stdout
    assert next((tmp_path / "home").rglob("models.json")).read_bytes() == kept
