"""Check web addresses and open pages in the browser of this machine."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from duckflow_tui.safety.paths import lies_inside

_HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_KEPT: Final = "%/?:@!$&'()*+,;=[]~"  # characters that stay unquoted, with letters and digits


class WebPage(NamedTuple):
    """A web page: the host that a browser would contact, and its address in ASCII."""

    host: str
    url: str


def parse_page(url: str) -> WebPage | None:
    """Return the page at an http or https address, normalized: ASCII, host in IDNA form. None for
    any other address, and for one that programs may read differently.
    """
    if "\\" in url or " " in url or not url.isprintable():
        return None
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()  # no letters that look like ASCII
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or "@" in parts.netloc or not _HOST.fullmatch(host):
        return None
    site = f"[{host}]{port}" if ":" in host else f"{host}{port}"
    path, query, fragment = (
        quote(part, safe=_KEPT) for part in (parts.path, parts.query, parts.fragment)
    )
    return WebPage(host, urlunsplit((parts.scheme, site, path, query, fragment)))


async def open_page(url: str, environ: Mapping[str, str], workspace: Path) -> bool:
    """Start the browser with a page; return False where the address is no web page, no display is
    available, or the program to open it is missing, fails to start or lies in the workspace.
    """
    page = parse_page(url)
    if page is None:
        return False
    if sys.platform != "darwin" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return False
    name = "open" if sys.platform == "darwin" else "xdg-open"
    found = shutil.which(name, path=environ.get("PATH"))
    program = os.path.abspath(found) if found else None  # noqa: ASYNC240  # asks no disk
    if program is None or lies_inside(program, workspace):
        return False
    nowhere = asyncio.subprocess.DEVNULL  # its output would disturb the screen
    try:
        await asyncio.create_subprocess_exec(
            program, page.url, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
    except OSError:
        return False
    return True
