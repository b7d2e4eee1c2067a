"""What a command finds in its environment, and what is kept from it (R07)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

#: Names of variables that hold secrets, or lead to them.
_SECRET_NAME: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH(?!OR)|COOKIE|PRIVATE|_DSN$|^DATABASE_URL$|^PG(PASS|SERVICE)"
    r"|^KUBECONFIG$|^NETRC$",
    re.IGNORECASE,
)
_USERINFO: Final = re.compile(r"://[^\s/@:]*:[^\s/@]+@")
_SHORTEST_SECRET: Final = 8  # characters; a shorter value is a word like any other

#: Variables that make bash, the loader or an interpreter run something else than was shown.
_ACTING: Final = frozenset(
    {
        "BASH_ENV",
        "BASHOPTS",
        "CDPATH",
        "ENV",
        "GLOBIGNORE",
        "IFS",
        "POSIXLY_CORRECT",
        "PROMPT_COMMAND",
        "PS4",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "SHELLOPTS",
    }
)
_ACTING_STARTS: Final = ("BASH_FUNC_", "DYLD_", "LD_", "DUCKFLOW_")

#: Ways to the user's desktop, terminal and agents.
_SOCKETS: Final = frozenset(
    {
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "GPG_AGENT_INFO",
        "SSH_AGENT_PID",
        "SSH_CLIENT",
        "SSH_CONNECTION",
        "SSH_TTY",
        "STY",
        "TMUX",
        "TMUX_PANE",
        "WAYLAND_DISPLAY",
        "XDG_RUNTIME_DIR",
    }
)

#: What every command gets: no colours, no pager, no question on a terminal that is not there.
_PLAIN: Final = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
}


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a model's command.

    Out of it are secrets by name and by shape, what would make bash or the loader run something
    else, and the ways to desktop and agents. PATH keeps its absolute folders; VIRTUAL_ENV stays
    where its programs are the ones that PATH finds.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not (_is_secret(name, value) or _acts(name) or name in _SOCKETS)
    }
    return {**_own(kept), **_PLAIN}


def users_own(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command that the user runs: theirs, but for a terminal."""
    return {**environ, "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"}


def secret_values(environ: Mapping[str, str]) -> frozenset[str]:
    """Values that no result may repeat, should a command get hold of them all the same."""
    return frozenset(
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST_SECRET
        and _is_secret(name, value)
        and not os.path.isabs(value)
        and " " not in value
    )


def _is_secret(name: str, value: str) -> bool:
    return _SECRET_NAME.search(name) is not None or _USERINFO.search(value) is not None


def _acts(name: str) -> bool:
    return name in _ACTING or name.startswith(_ACTING_STARTS)


def _own(kept: dict[str, str]) -> dict[str, str]:
    folders = [path for path in kept.get("PATH", "").split(os.pathsep) if os.path.isabs(path)]
    kept["PATH"] = os.pathsep.join(folders) or os.defpath
    venv = kept.get("VIRTUAL_ENV")
    if venv is not None and os.path.join(venv, "bin") not in folders:
        del kept["VIRTUAL_ENV"]
    return kept
