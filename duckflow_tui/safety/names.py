"""Names with a meaning: protected, secret, executable, or run by a build without being
named (R09).
"""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal

from duckflow_tui.safety.safe_text import visible_line


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text as a set; used to write long tables of names."""
    return frozenset(text.split())


#: Directories that no file operation touches, anywhere; ``git~1`` is ``.git`` on FAT and NTFS.
PROTECTED: Final = frozenset({".git", ".duckflow", "git~1"})

#: Names of files that hold secrets, in any case.
SECRET_GLOBS: Final = words_of(
    ".env* *.env env.prod* env.stag* env.dev* env.local .dev.vars *.pem *.pem.bak *.pem.old *.key "
    "*.key.bak *.key.old *.p8 *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.tfstate *.tfstate.* "
    "*.tfvars "
    "id_rsa* id_dsa* id_ecdsa* id_ed25519* credentials credentials.json credentials.y*ml "
    "credentials.toml credentials.ini credentials.xml credentials.csv credentials.db "
    "credentials.enc .credentials* *[-_.]credentials.json .secrets secret.json secret.y*ml "
    "secret.toml secrets.json secrets.y*ml secrets.toml secrets.ini kubeconfig auth.json "
    "service-account*.json service_account*.json client_secret*.json .netrc _netrc .npmrc "
    ".yarnrc.yml .pypirc .pgpass .my.cnf .s3cfg .boto .htpasswd .dockercfg .git-credentials "
    ".terraformrc .vault-token .*_history"
)

#: Directories that hold nothing but secrets.
SECRET_DIRS: Final = frozenset({".ssh", ".aws", ".azure", ".gnupg", ".kube", ".password-store"})

# Names that are secret only in a certain directory.
_SECRET_BELOW: Final = {"config.json": ".docker", "gcloud": ".config", "hosts.yml": "gh"}

#: Scripts: allowed, and one level more risk (S4-82, C18).
EXECUTABLE_SUFFIXES: Final = frozenset(
    {".sh", ".bash", ".zsh", ".fish", ".ksh", ".csh", ".command", ".applescript"}
    | {".bat", ".cmd", ".ps1", ".psm1", ".vbs", ".wsf"}
)

#: Native programs: never written (C18).
BINARY_SUFFIXES: Final = frozenset(
    {".exe", ".com", ".scr", ".pif", ".msi", ".dll", ".so", ".dylib", ".sys"}
)

_SECRET: Final = re.compile("|".join(map(fnmatch.translate, SECRET_GLOBS)))

#: Files that a build, a test run or a package manager executes without being given their names.
_BUILD_FILES: Final = words_of(
    "makefile gnumakefile justfile rakefile gemfile jenkinsfile dockerfile vagrantfile "
    "compose.yaml compose.yml docker-compose.yaml docker-compose.yml package.json pyproject.toml "
    "setup.py setup.cfg tox.ini noxfile.py conftest.py sitecustomize.py usercustomize.py "
    "cargo.toml build.rs cmakelists.txt configure meson.build pom.xml build.gradle "
    "build.gradle.kts settings.gradle"
)

_EXECUTABLE: Final = 0o111

# Characters that HFS+ ignores in a name: ``.g\u200cit`` opens ``.git`` there.
_IGNORED: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


def fold_name(name: str) -> str:
    """Return one spelling for all names that some file system treats as equal: lower case, NFC,
    without ignored characters and trailing dots and blanks (R09).
    """
    if not name.isascii():
        name = _IGNORED.sub("", unicodedata.normalize("NFC", name))
        name = unicodedata.normalize("NFC", name.casefold())
    return name.lower().rstrip(". ")  # R09a


def is_protected(name: str) -> bool:
    """Whether one path component is a protected name, whether or not it exists. A part after a
    colon is ignored: on NTFS it names a stream of the same file.
    """
    folded = fold_name(name)
    return folded in PROTECTED or folded.partition(":")[0].rstrip(". ") in PROTECTED


def holds_secrets(directory: str, parent: str = "") -> bool:
    """Whether a directory of this name, inside a directory ``parent``, holds only secrets."""
    folded = fold_name(directory)
    return folded in SECRET_DIRS or (
        folded in _SECRET_BELOW and _SECRET_BELOW[folded] == fold_name(parent)
    )


def is_secret_name(name: str, parent: str = "") -> bool:
    """Whether a file or directory of this name, inside a directory ``parent``, is a secret."""
    folded = fold_name(name)
    return _SECRET.match(folded) is not None or holds_secrets(name, parent)


def is_secret(parts: Sequence[str]) -> bool:
    """Whether the path with these components is a secret by its name or by a directory in it."""
    above = ("", *parts[:-1])
    return bool(parts) and (is_secret_name(parts[-1], above[-1]) or lies_in_secrets(parts[:-1]))


def lies_in_secrets(parts: Sequence[str]) -> bool:
    """Whether a directory with these components is, or lies in, one that holds only secrets."""
    return any(map(holds_secrets, parts, ("", *parts[:-1])))


def obeyed_kind(
    parts: Sequence[str], mode: int | None = None
) -> Literal["", "dot_name", "program", "build_file"]:
    """Return why other programs may act on a file without being given its name: a component of its
    path begins with a dot, it is executable by its permission bits ``mode``, or builds run files
    of that name. Empty for any other file.
    """
    for part in parts:
        if part.startswith(".") or (not part.isascii() and fold_name(part).startswith(".")):
            return "dot_name"
    if (mode or 0) & _EXECUTABLE:
        return "program"
    return "build_file" if fold_name(parts[-1]) in _BUILD_FILES else ""


def effective_suffix(name: str) -> str:
    """Return the extension of the folded name, with its dot: ``run.SH. `` gives ``.sh``. Empty for
    none.
    """
    folded = fold_name(name)
    dot = folded.rfind(".")
    return folded[dot:] if dot >= 0 else ""


def has_unseen_characters(name: str) -> bool:
    """Whether a name ends in dots or blanks, or holds control or invisible characters, and so looks
    like another name. Those that are part of an emoji or ideograph do not count.
    """
    return name != name.rstrip(". ") or name != visible_line(name)
