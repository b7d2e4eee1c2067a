"""How risky a command line is, from what it would run.

A command may always do more than its words say: a level only raises the risk that the gate shows.
What may run without asking is decided by the policy and the rules of the user.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Final

from duckflow_tui.safety.commands import (
    SHELLS,
    CommandLine,
    FoundCommand,
    program_of,
    read_command,
)
from duckflow_tui.safety.names import is_protected, is_secret, words_of
from duckflow_tui.safety.paths import lies_inside
from duckflow_tui.state.operations import Risk

#: Programs that only read, whatever their arguments are.
_READERS: Final = words_of(
    "basename cat cd cmp comm cut df dirname du echo expr false grep head id ls nl od printf "
    "pwd readlink realpath seq sleep stat tail test tr true uname wc which whoami"
)

#: Programs, some with a subcommand, and the options with which they only read, or only run tests:
#: none of these writes a file or names another program. ``=``: a value follows, in the same word
#: or the next; ``?``: one may follow in the same word.
_KNOWN: Final = {
    "diff": "-u -r -q -w -b -y -N --color? --brief --recursive",
    "find": "-name= -iname= -path= -type= -maxdepth= -mindepth= -size= -mtime= -newer= -not -o -a "
    "-empty -print",
    "git blame": "-L= -w -M -C -s -e",
    "git branch": "-a -r -v -l --all --remotes --list --show-current --merged --no-merged",
    "git diff": "--stat? --cached --staged --name-only --name-status --numstat --shortstat "
    "--summary --check --word-diff? --unified= --color? --no-color -U= -w -b -p -M -C --",
    "git log": "--oneline -n= --max-count= --stat? --graph --all --decorate? -p --patch --reverse "
    "--since= --until= --author= --grep= --format= --pretty= --date= --name-only --name-status "
    "--follow --first-parent --no-merges --no-color -S= -G= -L= --",
    "git ls-files": "-c -m -o -d -s -u --cached --modified --others --deleted "
    "--exclude-standard --",
    "git remote": "-v --verbose",
    "git rev-parse": "--abbrev-ref? --short? --show-toplevel --verify --git-dir "
    "--is-inside-work-tree",
    "git show": "--stat? --name-only --name-status --oneline --format= --pretty= -p -s "
    "--no-color --",
    "git stash list": "",
    "git status": "-s --short -b --branch --porcelain? -u? --untracked-files? --ignored? --long "
    "-v --verbose --",
    "git tag": "-l --list",
    "pytest": "-q -v -x -s -l -k= -m= -r= --lf --ff --sw --nf --quiet --verbose --exitfirst --tb= "
    "--maxfail= --durations= --last-failed --failed-first --no-header --no-summary --co "
    "--collect-only --capture= --color= --show-capture= --deselect= --ignore= -h --version",
    "rg": "-n -i -l -c -w -F -S -o -v -e= -g= -t= -A= -B= -C= --files --hidden --count "
    "--line-number --ignore-case --glob= --type= --context= --no-heading --sort= --",
    "sort": "-n -r -u -h -V -f -k= -t= --reverse --unique",
    "tree": "-a -d -L= -I= -f -s",
    "uniq": "-c -d -u -i -f= -s= -w=",
    "unittest": "-q -v -f -b -c -k= -s= -p= -t= --quiet --verbose --failfast --buffer --locals "
    "--start-directory= --pattern= --top-level-directory=",
}  # fmt: skip
_USES: Final = {name: words_of(options) for name, options in _KNOWN.items()}
RUNS_TESTS: Final = frozenset({"pytest", "unittest"})

#: More programs that show what files hold; what their options do nobody looks at.
_SHOW_MORE: Final = words_of(
    "base32 base64 bat batcat column expand fmt fold hexdump join jq paste pr rev strings tac xxd "
    "yq zcat"
)

#: Short options of grep and rg before a value of its own, and long ones before none.
_LEADS_VALUE: Final = re.compile("-[^-ABCmefdDgt]*[ABCmefdDgt]")
_ALONE: Final = words_of(
    "-- --recursive --line-number --ignore-case --count --hidden --no-heading --no-ignore "
    "--no-index --untracked "
    "--files-with-matches --fixed-strings --invert-match --no-messages --only-matching "
    "--with-filename --word-regexp"
)

#: Of these a word that is no option makes something new, asks a server or is a file to write.
_WORDLESS: Final = frozenset({"git branch", "git remote", "git tag", "git stash list", "uniq"})

#: Of git: what shows content of tracked files, and with an option; options for names alone.
_CONTENT: Final = words_of(
    "diff show grep whatchanged range-diff diff-files diff-index diff-tree format-patch cat-file "
    "archive"
)
_WITH_PATCH: Final = words_of("log reflog stash")
_PATCH: Final = re.compile("-[^-]*[pucULW]|--(pat|u|w|cc|dd|color-w|bi|fu|dif)")
_NAMES_ONLY: Final = words_of(
    "--stat --shortstat --numstat --summary --name-only --name-status --no-patch -s --quiet"
)

#: Programs of which a plain word may be code, another command, or a file that is written.
RUNS_WORDS: Final = words_of(
    "sed awk gawk mawk nawk ed ex vi vim nvim view emacs nano less more most man info tar zip "
    "unzip cpio rsync ssh scp sftp curl wget npx pnpx bunx uvx pipx parallel entr script "
    "strace ltrace flock chroot unshare nsenter tmux screen expect socat nc ncat busybox "
    "docker podman gdb lldb sqlite3 psql mysql lua tclsh osascript systemd-run runuser "
    "setpriv at batch crontab m4 dc trap alias hash enable bind complete compgen shopt set "
    "declare typeset local export readonly tee"
)

#: Subcommands of which the same is true.
RUNS_AFTER: Final = {
    "git": words_of(
        "config bisect submodule difftool mergetool filter-branch rebase clone archive "
        "format-patch hook for-each-repo daemon send-email"
    ),
    "npm": words_of("exec x explore init create"),
    "pnpm": words_of("exec dlx create"),
    "yarn": words_of("exec dlx create node"),
    "uv": words_of("run tool"),
    "poetry": words_of("run"),
    "pipenv": words_of("run shell"),
    "hatch": words_of("run"),
    "go": words_of("run generate"),
    "cargo": words_of("install"),
}

#: Options that write a file, run another program, or take one's settings from a file. A letter
#: stands for a short option, also among others in one word.
ESCAPES: Final = {
    "git": "output ext-diff textconv open-files-in-pager O exec-path exec upload-pack receive-pack "
    "template git-dir work-tree config-env",
    "find": "exec execdir ok okdir delete fprint fprint0 fprintf fls",
    "fd": "exec exec-batch x X",
    "rg": "pre hostname-bin",
    "sort": "output compress-program temporary-directory files0-from o T",
    "tree": "o",
    "pytest": "config-file override-ini rootdir confcutdir basetemp pythonwarnings junitxml "
    "junit-xml log-file report-log pdbcls debug pastebin p c o W",
    "make": "file makefile directory eval environment-overrides include-dir f C e E I",
    "npm": "prefix script-shell userconfig globalconfig node-options C",
    "pnpm": "dir script-shell C",
    "yarn": "cwd use-yarnrc",
    "cargo": "config manifest-path target-dir C Z",
    "go": "exec toolexec modfile overlay vettool o C",
    "ruff": "config output-file o",
    "black": "config",
    "mypy": "config-file python-executable install-types cache-dir",
    "tox": "conf workdir c x",
    "eslint": "config rulesdir plugin parser resolve-plugins-relative-to output-file format c o f",
    "prettier": "config plugin",
    "jest": "config globalSetup runner testRunner transform c",
    "gradle": "init-script build-file project-dir settings-file I b c p",
    "gcc": "wrapper B o",
    "cc": "wrapper B o",
}

_PRIVILEGES: Final = frozenset(["sudo", "doas", "su", "pkexec", "run0"])

#: Programs that run another one, which is named by their arguments.
WRAPPERS: Final = _PRIVILEGES | words_of(
    "env nohup time timeout nice ionice stdbuf setsid command exec builtin xargs watch coproc"
)

_LOADERS: Final = frozenset(["curl", "wget", "fetch", "http", "https", "aria2c"])

CODE_OPTIONS: Final = {
    **dict.fromkeys(SHELLS, ("-c",)),
    **dict.fromkeys(("perl", "ruby"), ("-e", "-E")),
    **dict.fromkeys(("node", "deno", "bun"), ("-e", "--eval", "-p", "--print")),
    **dict.fromkeys(("python", "python2", "python3", "pypy3"), ("-c",)),
    "php": ("-r",),
}

_INTERPRETERS: Final = frozenset(CODE_OPTIONS) | {"eval", "source", "."}
EVALUATES: Final = frozenset({"eval", "source", "."})

_DISK: Final = frozenset(
    ["fdisk", "parted", "sfdisk", "wipefs", "blkdiscard", "cryptsetup", "lvremove"]
)

_SYSTEM: Final = words_of(
    "shutdown reboot halt poweroff systemctl service launchctl mount umount iptables nft "
    "crontab at useradd userdel usermod passwd visudo sysctl modprobe insmod chroot"
)

_PERMISSIONS: Final = frozenset(["chmod", "chown", "chgrp", "setfacl"])
_ENDS: Final = frozenset(["kill", "killall", "pkill"])

_REMOTE: Final = frozenset(
    ["ssh", "scp", "sftp", "rsync", "ftp", "nc", "ncat", "netcat", "telnet", "socat"]
)

_DELETES: Final = frozenset(["rm", "rmdir", "unlink", "shred", "truncate"])

_WRITES: Final = (
    _DELETES
    | _PERMISSIONS
    | frozenset(["tee", "cp", "mv", "ln", "install", "dd", "touch", "mkdir"])
)

#: Two words that together do what the code says, and its level.
_PAIRS: Final[dict[tuple[str, str], tuple[str, Risk]]] = {
    ("git", "push"): ("publishes", Risk.HIGH),
    ("git", "clean"): ("deletes", Risk.HIGH),
    ("git", "config"): ("git_internals", Risk.HIGH),
    ("git", "filter-branch"): ("rewrites_history", Risk.HIGH),
    ("git", "rebase"): ("rewrites_history", Risk.HIGH),
    ("git", "reset"): ("rewrites_history", Risk.MEDIUM),
    ("git", "restore"): ("overwrites", Risk.HIGH),
    ("git", "checkout"): ("overwrites", Risk.MEDIUM),
    ("gh", "release"): ("publishes", Risk.HIGH),
    ("npm", "publish"): ("publishes", Risk.HIGH),
    ("yarn", "publish"): ("publishes", Risk.HIGH),
    ("pnpm", "publish"): ("publishes", Risk.HIGH),
    ("cargo", "publish"): ("publishes", Risk.HIGH),
    ("twine", "upload"): ("publishes", Risk.HIGH),
    ("uv", "publish"): ("publishes", Risk.HIGH),
    ("docker", "push"): ("publishes", Risk.HIGH),
    ("kubectl", "delete"): ("publishes", Risk.HIGH),
    ("terraform", "destroy"): ("publishes", Risk.CRITICAL),
    ("terraform", "apply"): ("publishes", Risk.HIGH),
}

_INSTALLERS: Final = words_of(
    "pip pip3 pipx uv npm yarn pnpm cargo gem go brew apt apt-get dnf yum pacman apk"
)

_INSTALL_WORDS: Final = frozenset({"install", "add", "i", "ci", "upgrade", "update", "remove"})
_LARGE: Final = frozenset({"/", "/*", "~", "~/", "~/*", "*", ".", "./", "./*", "..", "../*"})
MODULE: Final = re.compile(r"python(?:[23](?:\.\d+)?)?")
_FUNCTION: Final = re.compile(r"\(\s*\)\s*[{(]|\bfunction\s")
_NUMBER: Final = re.compile(r"[\d.]+[smhd]?")
_MAX_DEPTH: Final = 3  # shells within shells
_MAX_COMMANDS: Final = 200


@dataclass
class Assessment:
    """The risk so far, and the codes of what it rests on, the first found first."""

    risk: Risk
    reasons: list[str] = field(default_factory=list[str])
    #: Where a command's words for secret files lead, links not followed; a pattern stays one.
    secrets: set[str] = field(default_factory=set[str])

    def add_reason(self, reason: str, risk: Risk) -> None:
        """Add a reason; it raises the risk to ``risk`` where that is higher."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        self.risk = max(self.risk, risk, key=attrgetter("rank"))


def assess_command(line: CommandLine, cwd: Path, root: Path) -> Assessment:
    """The risk of a line that would run in ``cwd`` of the workspace ``root``."""
    found = _Command(cwd, root)
    found.assess_line(line)
    plain = not line.reason and not found.reasons
    if plain and all(only_reads(command.words) for command in _iter_commands(line.found)):
        inside = any(program_inside(command.words, root) for command in _iter_commands(line.found))
        found.risk = found.risk if inside else Risk.LOW
    return found


def program_inside(words: tuple[str, ...], root: Path) -> str:
    """The path of the program that PATH gives where that lies in the workspace ``root``, as in an
    activated venv; else empty. It need not do what its name says. Blocking.
    """
    folders = filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep))
    found = shutil.which(words[0], path=os.pathsep.join(folders)) if words else None
    return found if found and lies_inside(found, root) else ""


def only_reads(words: tuple[str, ...]) -> bool:
    """Whether a command does no more than read, as far as its words say."""
    return known_use(words) not in {"", *RUNS_TESTS}


def known_use(words: tuple[str, ...]) -> str:
    """The program, with its subcommand, of a command that only reads or only runs tests: every
    option is known to do no more. Empty for any other, also for a program named by its path.
    """
    words = without_python(words)
    if words[:2] == ("git", "--no-pager"):
        words = ("git", *words[2:])
    name, size = _find_use(words)
    if name not in _USES:
        return name
    options, value, ended = _USES[name], False, False
    for word in words[size:]:
        if word.startswith("@") and name in RUNS_TESTS:  # a file with more options
            return ""
        if value or ended or not word.startswith("-") or word == "-":
            if name in _WORDLESS and not value:
                return ""
            if value and word.startswith("-"):
                return ""  # no value
            value = False
        elif word == "--":
            ended = True
            if word not in options:
                return ""
        elif (needs := _takes_next_word(word, options)) is None:  # R05c
            return ""
        else:
            value = needs
    return name


def _find_use(words: tuple[str, ...]) -> tuple[str, int]:
    """The entry of ``_KNOWN`` or ``_READERS`` for a command, whatever its options, and of how many
    words that is; empty for any other.
    """
    size = next((n for n in (3, 2, 1) if " ".join(words[:n]) in _USES and len(words) >= n), 0)
    if not size and words and words[0] in _READERS:
        size = 1
    return " ".join(words[:size]), size


def unwrap_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of the command that is run in the end, as far as wrappers name it."""
    while program_of(words) in WRAPPERS:
        rest = list(words[1:])
        while rest and (rest[0].startswith("-") or "=" in rest[0] or _NUMBER.fullmatch(rest[0])):
            rest.pop(0)
        words = tuple(rest)
    return words


def shows_files(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words of a command whose program shows what files hold, behind any wrappers and whatever
    its options are, the program without its folder; none for any other.
    """
    words = unwrap_command(words)
    words = (program_of(words), *words[1:])
    name, _ = _find_use(words)
    shows = name not in {"", *RUNS_TESTS} or words[0] in _SHOW_MORE
    return words if shows or (words[0] == "git" and not _CONTENT.isdisjoint(words)) else ()


def without_python(words: tuple[str, ...]) -> tuple[str, ...]:
    """``pytest …`` for ``python -m pytest …``, and the same for ``unittest``. Any other module may
    be a file of the folder, whatever program has its name.
    """
    tests = words[1:2] == ("-m",) and not RUNS_TESTS.isdisjoint(words[2:3])
    return words[2:] if tests and MODULE.fullmatch(words[0]) else words


def looked_through(words: tuple[str, ...]) -> tuple[str, ...]:
    """Those words of a reader that may be folders whose files it shows, ``.`` where it may be the
    one it runs in; none for a reader that shows no file of a folder.
    """
    options = [word for word in words if word.startswith("-")]
    below = any(re.match("-[^-]*[rRd]|--(r|d[ei])", word) for word in options)
    anywhere = any(re.match("--(no-in|unt)", word) for word in options)  # not only what is tracked
    searches = (words[0] == "grep" and below) or (words[0] == "git" and anywhere)
    if words[0] not in ("diff", "rg") and not searches:
        return ()
    plain, value = list[str](), False
    for word in words[2 if words[0] == "git" else 1 :]:
        if not (value or word.startswith("-")):
            plain.append(word)
        value = not value and _LEADS_VALUE.fullmatch(word) is not None
    # The first is what is searched for; of a long option the next one may be its value.
    sure = len(plain) > 1 and all("=" in w or w in _ALONE for w in options if w[:2] == "--")
    return tuple(plain) if sure or words[0] == "diff" else (*plain, ".")


def shows_tracked(words: tuple[str, ...]) -> bool:
    """Whether a command of git shows the content of tracked files, whether its words name them or
    not.
    """
    words = unwrap_command(words)
    if program_of(words) != "git":
        return False
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    patch = any(map(_PATCH.match, options))
    if not _CONTENT.isdisjoint(words):
        return patch or _NAMES_ONLY.isdisjoint(options)
    if not _WITH_PATCH.isdisjoint(words):
        return patch
    verbose = any(re.match("-[^-]*v|--v", option) for option in options)
    return verbose and not {"status", "commit"}.isdisjoint(words)


def _takes_next_word(word: str, options: frozenset[str]) -> bool | None:
    """Whether the value of this option is the next word; None for an option that is not known."""
    name, given, _ = word.partition("=")
    if f"{name}=" in options:
        return not given
    if (name if not given else f"{name}?") in options or f"{name}?" in options:
        return False
    if word.startswith("--"):
        return None
    if "-n=" in options and word[1:].isdigit():  # ``git log -5``
        return False
    if f"{word[:2]}=" in options or f"{word[:2]}?" in options:  # ``-U3``
        return False
    single = all(f"-{letter}" in options for letter in word[1:-1])
    last = f"-{word[-1]}"
    if single and f"{last}=" in options:
        return True
    return False if single and last in options else None


def _iter_commands(found: Iterable[FoundCommand]) -> Iterator[FoundCommand]:
    """Each command and those inside of it, at most ``_MAX_COMMANDS``."""
    stack = list(reversed(list(found)))
    for _ in range(_MAX_COMMANDS):
        if not stack:
            return
        command = stack.pop()
        yield command
        stack.extend(reversed(command.inner))


class _Command(Assessment):
    def __init__(self, cwd: Path, root: Path) -> None:
        super().__init__(Risk.MEDIUM)  # of any command
        self._cwd = cwd
        self._root = root
        self._folders = [cwd]  # that it may be in

    def assess_line(self, line: CommandLine, depth: int = 0) -> None:
        if line.reason == "hidden":
            self.add_reason("hidden_characters", Risk.HIGH)
        if not line.readable:
            self.add_reason("not_readable", Risk.HIGH)
        if _FUNCTION.search(line.text):
            self.add_reason("runs_code", Risk.HIGH)
        if line.reason == "background":
            self.add_reason("background", Risk.MEDIUM)
        loads = False
        commands = list(_iter_commands(line.found))
        if len(commands) == _MAX_COMMANDS:
            self.add_reason("not_readable", Risk.HIGH)
        for command in commands:
            words = self._unwrap_words(command.words)
            program = program_of(words)
            loads = program in _LOADERS or (loads and command.piped)
            fed = loads and command.piped and program not in _LOADERS
            inside = any(
                program_of(self._unwrap_words(inner.words)) in _LOADERS for inner in command.inner
            )
            if program in _INTERPRETERS and (fed or inside):
                self.add_reason("runs_download", Risk.CRITICAL)
            self._assess_command(program, words[1:], depth)
        for target in line.targets:
            if target != "/dev/null":
                self.add_reason("writes_file", Risk.MEDIUM)
                self._assess_path(target, writes=True)

    def _unwrap_words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        found = unwrap_command(words)
        before = words[: len(words) - len(found)]
        if not _PRIVILEGES.isdisjoint(program_of((word,)) for word in before):
            self.add_reason("privileges", Risk.CRITICAL)
        return found

    def _assess_command(self, program: str, args: tuple[str, ...], depth: int) -> None:
        flags = {char for arg in args if re.fullmatch(r"-[A-Za-z]+", arg) for char in arg[1:]}
        long = {arg.partition("=")[0] for arg in args if arg.startswith("--")}
        plain = [arg for arg in args if not arg.startswith("-")]
        if program in _DELETES:
            self._assess_deletion(program, flags | {"r"} if "--recursive" in long else flags, plain)
        elif program == "find":
            if {"-delete", "-exec", "-execdir", "-ok"} & set(args):
                self.add_reason(
                    "deletes" if "-delete" in args or "rm" in args else "runs_code", Risk.HIGH
                )
        elif program in _DISK or program.startswith("mkfs"):
            self.add_reason("disk", Risk.CRITICAL)
        elif program == "dd":
            target = next((arg[3:] for arg in args if arg.startswith("of=")), "")
            self.add_reason("disk" if target.startswith("/dev/") else "writes_file", Risk.HIGH)
            if target.startswith("/dev/"):
                self.add_reason("disk", Risk.CRITICAL)
        elif program in _SYSTEM:
            self.add_reason("system", Risk.HIGH)
        elif program in _PERMISSIONS:
            wide = "R" in flags or "--recursive" in long or any("777" in arg for arg in plain)
            self.add_reason("permissions", Risk.HIGH if wide else Risk.MEDIUM)
        elif program in _ENDS:
            self.add_reason("ends_processes", Risk.HIGH)
        elif program in _REMOTE:
            self.add_reason("network", Risk.HIGH)
        elif program in _LOADERS:
            self.add_reason("network", Risk.MEDIUM)
        elif program in _INSTALLERS and _INSTALL_WORDS & set(plain):
            self.add_reason("installs", Risk.MEDIUM)
        elif program in EVALUATES:
            self.add_reason("runs_code", Risk.HIGH)
        self._assess_code(program, args, depth)
        self._assess_pair(program, plain, flags, long)
        if program == "cd":
            self._folders += [self._cwd / arg for arg in plain]
        for arg in plain:
            self._assess_path(arg, writes=program in _WRITES)

    def _assess_deletion(self, program: str, flags: set[str], plain: list[str]) -> None:
        recursive = bool({"r", "R"} & flags) or program == "shred"
        self.add_reason("deletes", Risk.HIGH if recursive else Risk.MEDIUM)
        unsure = any("$" in arg or "`" in arg for arg in plain)
        if recursive and (unsure or any(self._is_large(arg) for arg in plain)):
            self.add_reason("deletes_widely", Risk.CRITICAL)

    def _is_large(self, word: str) -> bool:
        if word in _LARGE:
            return True
        path = self._resolve_lexically(word)
        return path is not None and (path == self._root or not path.is_relative_to(self._root))

    def _assess_code(self, program: str, args: tuple[str, ...], depth: int) -> None:
        """Code among the arguments; a shell's is read as a line of its own."""
        name = re.sub(r"(?<=python3)\.\d+$", "", program)
        if program == "eval":
            self._assess_inner_line(" ".join(args), depth)
        for option in CODE_OPTIONS.get(name, ()):
            if option not in args:
                continue
            self.add_reason("runs_code", Risk.MEDIUM)
            at = args.index(option) + 1
            if name in SHELLS and at < len(args):
                self._assess_inner_line(args[at], depth)

    def _assess_inner_line(self, text: str, depth: int) -> None:
        """A line that a shell reads among the words of another one."""
        if depth >= _MAX_DEPTH:
            self.add_reason("not_readable", Risk.HIGH)
        else:
            self.assess_line(read_command(text), depth + 1)

    def _assess_pair(self, program: str, plain: list[str], flags: set[str], long: set[str]) -> None:
        pair = next((_PAIRS[key] for word in plain[:3] if (key := (program, word)) in _PAIRS), None)
        if pair is None:
            return
        reason, risk = pair
        if program == "git" and "push" in plain and ("f" in flags or "--force" in long):
            risk = Risk.CRITICAL
        if program == "git" and "reset" in plain and "--hard" in long:
            reason, risk = "overwrites", Risk.HIGH
        self.add_reason(reason, risk)

    def _assess_path(self, word: str, *, writes: bool) -> None:
        """Assess a word as a path."""
        value = word.rpartition("=")[2]
        names = [name for name in value.split("/") if name not in ("", ".")]
        if any(is_protected(name) for name in names):
            self.add_reason("protected", Risk.CRITICAL if writes else Risk.HIGH)
        if names and is_secret(names):
            self.add_reason("secret", Risk.HIGH)
            self.secrets |= {os.path.normpath(folder / value) for folder in self._folders}
        path = self._resolve_lexically(value)
        if path is not None and not lies_inside(str(path), self._root):
            self.add_reason("outside", Risk.HIGH if writes else Risk.MEDIUM)

    def _resolve_lexically(self, word: str) -> Path | None:
        """The absolute path that a word spells, links not followed; None for no path. It only
        tells how risky the line looks; it decides nothing (R01).
        """
        if not word.startswith(("/", "~", "..", "./")) and "/../" not in word:
            return None
        if word.startswith("/dev/") and word[5:] in ("null", "stdout", "stderr", "stdin"):
            return None
        if word.startswith("~"):
            return Path("/~")  # wherever that is
        return Path(os.path.normpath(self._cwd / word))
