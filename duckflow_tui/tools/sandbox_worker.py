"""The program around each sandboxed command on Linux: build the sandbox, run the command in it, and
end with its exit code.

Run as ``python -I -S``; standard library only, and few modules of it, since every command waits for
these imports. The ``plan`` from ``sandbox.py`` says what to show and what to hide; which of it
exists is looked up here, outside of the sandbox. If any part of the sandbox fails, the command is
not started.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import re
import resource
import signal
import stat
import struct
import sys
import time

TYPE_CHECKING = False  # read by type checkers; importing typing takes as long as all other imports
if TYPE_CHECKING:
    from typing import Any, NoReturn

NOT_SET_UP = 125  # exit status of a command that was not started
PROXY = ("127.0.0.1", 3128)  # where a command with hosts finds its proxy, in a network of its own
_SETTLE = 0.15  # seconds that a command's children have to end after it
_SEARCH = 0.3  # seconds of processor time to search the open files of programs
_TRIES = 3  # attempts to build the sandbox
_LOOK = 0.005  # seconds between two checks for running processes

# Limits of a command: far above the needs of builds and tests, below what stops the machine.
MOST_FILE = 32 << 30  # bytes of one file; a write beyond ends its program with SIGXFSZ
MOST_SHARED = 4 << 30  # bytes in /dev/shm, or half of the memory where that is less
MOST_EMPTY = 256 << 20  # bytes in each other tmpfs, such as /run
MOST_PROCESSES = 4_096  # including threads; or EACH_PROCESSOR for each processor if that is more
EACH_PROCESSOR = 512

_STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")  # left to the command

# --- the kernel ------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE, _AT_NO_FOLLOW = -100, 0x1000, 0x8000, 0x100
_CLONE_TREE, _CLOSE_ON_EXEC, _FROM_DESCRIPTOR = 1, os.O_CLOEXEC, 4
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_PRIVATE, _WHOLE_TREE = 1 << 18, 1 << 14

_NEW_MOUNTS, _NEW_CGROUP, _NEW_HOST, _NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
_NEW_USER, _NEW_PIDS, _NEW_NET = 0x10000000, 0x20000000, 0x40000000

_DROP_FROM_BOUNDING, _SET_SECCOMP, _NO_NEW_PRIVILEGES, _AMBIENT, _CLEAR = 24, 22, 38, 47, 4
_DUMPABLE = 4
_CAPABILITY_VERSION = 0x20080522


def _check_result(result: int, what: str) -> int:
    """Return the result of a call of the C library; raise OSError if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _syscall(what: str, number: int, *args: Any) -> int:
    """Call the kernel by the number of a system call and return the result; ``what`` names it in
    the OSError of a failure.
    """
    values = (ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args)
    return _check_result(_libc.syscall(ctypes.c_long(number), *values), what)


def _prctl(what: str, option: int, *args: Any) -> None:
    """Call ``prctl``; raise OSError, naming ``what``, if it fails."""
    given = (*args, 0, 0, 0, 0)[:4]
    values = (ctypes.c_ulong(arg) if isinstance(arg, int) else arg for arg in given)
    _check_result(_libc.prctl(ctypes.c_int(option), *values), what)


def _mount_filesystem(kind: str, target: str, flags: int, options: str = "") -> None:
    """Mount a new file system of this kind. Raises OSError."""
    given = (kind.encode(), os.fsencode(target), kind.encode())
    done = _libc.mount(*given, ctypes.c_ulong(flags), options.encode() or None)
    _check_result(done, f"mount {kind} on {target}")


def _set_attributes(descriptor: int, path: bytes, flags: int, attributes: int) -> None:
    """Set attributes of a mount, such as read-only. Raises OSError."""
    given = struct.pack("=QQQQ", attributes, 0, 0, 0)
    _syscall("mount_setattr", _MOUNT_SETATTR, descriptor, path, flags, given, len(given))


def _clone_mounts(path: str, read_only: bool = False, link: int = 0) -> int:
    """Return a descriptor of a detached copy of the mounts at and below a path. With ``link`` 1, a
    link at the path is copied itself instead of its target.
    """
    flags = _CLONE_TREE | _CLOSE_ON_EXEC | _AT_RECURSIVE | link * _AT_NO_FOLLOW
    tree = _syscall(f"open_tree {path}", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)
    if read_only:
        _set_attributes(
            tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, _READ_ONLY | _NO_SETUID | _NO_DEVICES
        )
    return tree


def _attach_tree(tree: int, target: str) -> None:
    """Mount a detached copy of mounts at ``target`` and close its descriptor."""
    what = f"move_mount {target}"
    _syscall(what, _MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _FROM_DESCRIPTOR)
    os.close(tree)


# --- mounts ----------------------------------------------------------------------------------


class Mount:
    """A mount in the sandbox. ``kind``: ``write``, ``read`` and ``link`` show ``source`` at
    ``target``, the last a link itself; ``empty`` is an empty writable folder, ``sealed`` one
    that is read-only, ``blank`` a file that cannot be opened.
    """

    def __init__(self, target: str, kind: str, source: str = "") -> None:
        self.target, self.kind, self.source = target, kind, source


def _is_below(path: str, *folders: str) -> bool:
    """Whether a path is one of these folders or lies in one."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in folders)


def plan_mounts(plan: dict[str, Any]) -> list[Mount]:
    """Return the mounts that make up the sandbox, parents before their contents.

    The workspace is writable except for its closed places; its parent folders keep their names.
    Homes, folders of sockets, and every socket and FIFO that another program uses are hidden;
    readable paths are shown again inside them. Only paths that exist are mounted on.
    """
    found: dict[str, Mount] = {}
    root, private = str(plan["root"]), str(plan["private"])
    for folder, source in (("run", ""), ("var/run", ""), ("tmp", private), ("var/tmp", private)):
        path = os.path.realpath(f"/{folder}")
        if os.path.isdir(path):
            found[path] = Mount(path, "write" if source else "empty", source)
    for given in plan["hidden"]:
        path = os.path.realpath(given)
        if path != root and os.path.exists(path):
            found.setdefault(path, Mount(path, "sealed" if os.path.isdir(path) else "blank"))
    away = [path for path in found if not any(path != o and _is_below(path, o) for o in found)]
    shown: list[str] = []
    for given in plan["readable"]:
        for path in dict.fromkeys((given, os.path.realpath(given))):
            over = [folder for folder in away if _is_below(path, folder) and path != folder]
            if over and os.path.exists(path):
                shown.append(path)
                found[path] = Mount(path, "read", path)
    names = os.path.realpath("/etc/resolv.conf")
    if plan["network"] and os.path.exists(names) and _is_below(names, *away):
        found[names] = Mount(names, "read", names)
    for path in _find_reachable(root):
        found.setdefault(path, Mount(path, "blank"))
    seen = (root, *shown)  # inside a hidden folder, only paths shown again need to be hidden
    found = {
        path: mount
        for path, mount in found.items()
        if path in away
        or not _is_below(path, *away)
        or _is_below(path, *seen)
        or mount.kind == "read"
    }
    found[root] = Mount(root, "write", root)
    # Hidden folders in the workspace stay hidden, even where a path in them is closed too.
    empty = [path for path in found if _is_below(path, root) and not found[path].source]
    closed = [*plan["closed"], *plan["below"]]
    for given in closed:
        path = os.path.realpath(given)
        if os.path.islink(given) and _is_below(given, root) and not _is_below(given, *empty):
            found[given] = Mount(given, "link", given)
        if path in empty and os.path.isdir(path):
            found[path] = Mount(path, "sealed")
        elif path != root and _is_below(path, root) and not _is_below(path, *empty):
            found |= {path: Mount(path, "read", path)} if os.path.exists(path) else {}
    there = [path for path in plan["blank"] if os.path.lexists(path)]
    for path in (path for path in there if not _is_below(path, *empty)):
        found[path] = Mount(path, "sealed" if os.path.isdir(path) else "blank")
    shut = [path for path in found if _is_below(path, root) and found[path].kind != "write"]
    kept = (*closed, *plan["hidden"])
    for path in {*kept, *map(os.path.realpath, kept)} & {*shut}:
        while (path := os.path.dirname(path)) != root and not _is_below(path, *shut):
            found[path] = Mount(path, "write", path)  # a mount point cannot be renamed
    usual = (mount for mount in found.values() if not _is_below(mount.target, "/dev"))
    return sorted(usual, key=lambda mount: mount.target.rstrip("/").count("/"))


def _find_reachable(root: str) -> list[str]:
    """Return the files of the system's sockets, and of FIFOs outside of ``root`` that a program has
    open.

    Not found: those created or opened later; a socket that was renamed, or whose program has
    changed its folder; those of other users' programs and of containers.
    """
    lines: list[bytes] = []
    with contextlib.suppress(OSError), open("/proc/net/unix", "rb") as file:
        lines = file.read().splitlines()[1:]
    bound = [words for words in (line.split(maxsplit=7) for line in lines) if len(words) == 8]
    names = {words[6].decode(): os.fsdecode(words[7]) for words in bound}
    led = [name for name in names.values() if name.startswith("/")]
    led += _find_open_files(
        {inode: name for inode, name in names.items() if not name.startswith("/")}
    )
    found: dict[str, None] = {}
    for path in map(os.path.realpath, led):
        with contextlib.suppress(OSError):
            mode = os.stat(path).st_mode
            if stat.S_ISSOCK(mode) or (stat.S_ISFIFO(mode) and not _is_below(path, root)):
                found[path] = None
    return list(found)


def _find_open_files(sockets: dict[str, str]) -> list[str]:
    """Return the paths of FIFOs that programs have open, and of these sockets, given as inode and
    name relative to their program's working folder. Stops after 0.3 seconds of work.
    """
    found: list[str] = []
    until = time.process_time() + _SEARCH
    for process in (f"/proc/{name}" for name in os.listdir("/proc") if name.isdigit()):
        if time.process_time() > until:
            break
        files: list[str] = []
        with contextlib.suppress(OSError):
            files = os.listdir(f"{process}/fd")
        for file in (f"{process}/fd/{name}" for name in files):
            with contextlib.suppress(OSError):
                what = os.readlink(file)
                if name := sockets.get(what.removeprefix("socket:[").removesuffix("]")):
                    found.append(os.path.join(os.readlink(f"{process}/cwd"), name))
                elif what.startswith("/") and stat.S_ISFIFO(os.stat(file).st_mode):
                    found.append(what)
    return found


def _check_identity(found: os.stat_result, expected: list[int], what: str) -> None:
    """Raise OSError unless a file has the expected device and inode; ``what`` names it."""
    if [found.st_dev, found.st_ino] != expected:
        raise OSError(errno.ESTALE, f"{what} is not the folder it was")


# --- full: namespaces ------------------------------------------------------------------------


def bubblewrap_argv(plan: dict[str, Any], mounts: list[Mount], inside: list[str]) -> list[str]:
    """Return the command line of bubblewrap that runs ``inside`` with these mounts, in the same
    layout as ``mount_tree`` makes.
    """
    argv = [str(plan["bwrap"]), "--unshare-user", "--unshare-pid", "--unshare-ipc"]
    argv += ["--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", "--as-pid-1"]
    argv += [] if plan["network"] else ["--unshare-net"]
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    shared, empty = (
        ["--size", str(size)] if plan["sized"] else [] for size in (shared_memory(), MOST_EMPTY)
    )
    argv += [*shared, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    ways = {"write": "--bind", "empty": "--tmpfs", "sealed": "--tmpfs"}
    for mount in mounts:
        if mount.kind == "link":
            continue  # bubblewrap would follow it
        source = [] if mount.kind in ("empty", "sealed") else [mount.source or "/dev/null"]
        argv += [] if source else empty
        argv += [ways.get(mount.kind, "--ro-bind"), *source, mount.target]
    for mount in mounts:
        argv += ["--remount-ro", mount.target] if mount.kind == "sealed" else []
    return [*argv, "--chdir", plan["cwd"], "--", *inside]


def enter_namespaces(plan: dict[str, Any]) -> None:
    """Move this process into new namespaces; the next child becomes the first process in them.
    Raises OSError.
    """
    user, group = os.geteuid(), os.getegid()
    new = _NEW_USER | _NEW_MOUNTS | _NEW_PIDS | _NEW_IPC | _NEW_HOST | _NEW_CGROUP
    new |= 0 if plan["network"] else _NEW_NET
    _check_result(_libc.unshare(ctypes.c_int(new)), "unshare")
    maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    for name, text in maps.items():
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def mount_tree(plan: dict[str, Any], mounts: list[Mount]) -> None:
    """Build the sandbox's tree in the present mount namespace: everything read-only, then a new
    ``/dev``, these mounts and a new ``/proc``. Raises OSError.
    """
    _mount_filesystem("none", "/", _PRIVATE | _WHOLE_TREE)
    trees = {
        mount.target: _clone_mounts(mount.source, mount.kind != "write", int(mount.kind == "link"))
        for mount in mounts
        if mount.source
    }
    devices = {name: _clone_mounts(f"/dev/{name}") for name in _DEVICES}
    blanks = [_clone_mounts("/dev/null", True) for mount in mounts if mount.kind == "blank"]
    _check_identity(os.fstat(trees[plan["root"]]), plan["identity"], plan["root"])
    _set_attributes(_AT_FDCWD, b"/", _AT_RECURSIVE, _READ_ONLY | _NO_SETUID)
    _mount_filesystem("tmpfs", "/dev", _NO_SETUID, "mode=755")
    for name, tree in devices.items():
        _make_file(f"/dev/{name}")
        _attach_tree(tree, f"/dev/{name}")
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{target}", f"/dev/{name}")
    os.mkdir("/dev/pts")
    _mount_filesystem(
        "devpts", "/dev/pts", _NO_SETUID | _NO_PROGRAMS, "newinstance,ptmxmode=0666,mode=620"
    )
    os.symlink("pts/ptmx", "/dev/ptmx")
    os.mkdir("/dev/shm")
    size = f"size={shared_memory()}"
    _mount_filesystem("tmpfs", "/dev/shm", _NO_SETUID | _NO_DEVICES, f"mode=1777,{size}")
    for mount in mounts:
        if mount.kind == "blank" and not os.path.lexists(mount.target):
            continue  # a socket that vanished
        _make_mount_point(mount, trees)
        if mount.source:
            _attach_tree(trees[mount.target], mount.target)
        elif mount.kind in ("empty", "sealed"):
            size = f"size={MOST_EMPTY}"
            _mount_filesystem("tmpfs", mount.target, _NO_SETUID | _NO_DEVICES, f"mode=755,{size}")
        else:
            _attach_tree(blanks.pop(), mount.target)
    for mount in mounts:
        if mount.kind == "sealed":
            _set_attributes(_AT_FDCWD, os.fsencode(mount.target), 0, _READ_ONLY)
    _set_attributes(_AT_FDCWD, b"/dev", 0, _READ_ONLY)
    _mount_filesystem("proc", "/proc", _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS | _READ_ONLY)
    if not plan["network"]:
        _enable_loopback()


def _make_file(path: str) -> None:
    """Create an empty file; one that exists stays as it is."""
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))


def _make_mount_point(mount: Mount, trees: dict[str, int]) -> None:
    """Create the file or folder to mount on, where it is missing: only inside of an earlier mount,
    since the tree itself is read-only.
    """
    if os.path.lexists(mount.target):
        return
    if mount.kind in ("empty", "sealed") or (
        mount.source and stat.S_ISDIR(os.fstat(trees[mount.target]).st_mode)
    ):
        os.makedirs(mount.target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(mount.target), exist_ok=True)
        _make_file(mount.target)


def _enable_loopback() -> None:
    """Switch on the loopback interface of the new network namespace."""
    asking = _check_result(_libc.socket(2, 2, 0), "socket")  # AF_INET, SOCK_DGRAM
    fcntl.ioctl(asking, 0x8914, struct.pack("16sh22x", b"lo", 0x41))  # SIOCSIFFLAGS: up
    os.close(asking)


# --- every rung: no rights, fewer calls ------------------------------------------------------


def drop_rights(plan: dict[str, Any]) -> None:
    """Drop all capabilities for good and install the plan's seccomp filter. Raises OSError."""
    program = bytes.fromhex(plan["filter"])
    if not program:
        raise OSError(errno.EOPNOTSUPP, f"no system calls are known for {os.uname().machine}")
    _prctl("no_new_privs", _NO_NEW_PRIVILEGES, 1)
    _prctl("ambient capabilities", _AMBIENT, _CLEAR)
    header, held = struct.pack("=Ii", _CAPABILITY_VERSION, 0), ctypes.create_string_buffer(24)
    _check_result(_libc.capget(header, held), "capget")
    if any(held.raw[4:8] + held.raw[16:20]):  # permitted ones; without any, none can be dropped
        for capability in range(64):
            if _libc.prctl(23, ctypes.c_ulong(capability), 0, 0, 0) >= 0:  # PR_CAPBSET_READ
                _prctl("bounding capabilities", _DROP_FROM_BOUNDING, capability)
    _check_result(_libc.capset(header, struct.pack("=6I", *(0,) * 6)), "capset")
    kept = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
    _prctl("seccomp", _SET_SECCOMP, 2, filter_)


def shared_memory() -> int:
    """Return the size limit of /dev/shm in bytes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory // 2, MOST_SHARED)


def set_limits() -> None:
    """Set resource limits for the command: core dumps, file size and, from Linux 5.14 on,
    processes; older kernels would count all processes of the user. Memory is not limited, since
    Node, Go, Java and sanitizers reserve far more addresses than they use.
    """
    wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: MOST_FILE}
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if release and tuple(map(int, release.groups())) >= (5, 14):
        processors = os.cpu_count() or 1
        wanted[resource.RLIMIT_NPROC] = max(MOST_PROCESSES, EACH_PROCESSOR * processors)
    for kind, most in wanted.items():
        soft, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(
            kind, (most if soft == resource.RLIM_INFINITY else min(soft, most), most)
        )


# --- running a command -----------------------------------------------------------------------


def run_around(plan: dict[str, Any], command: list[str]) -> NoReturn:
    """Start the sandbox with the command from outside, wait for it, and exit as the command did.
    Building the sandbox is tried three times.
    """
    _check_identity(os.stat(plan["root"]), plan["identity"], plan["root"])
    here = os.stat(".")
    plan = {**plan, "cwd": os.getcwd(), "here": [here.st_dev, here.st_ino]}
    for name in _STOP_SIGNALS:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for left in reversed(range(_TRIES)):
        child, told, complained = _start_inside(plan, command)
        with os.fdopen(told, "rb") as pipe, os.fdopen(complained, "rb") as complaint:
            if pipe.read(1) == b"+":
                words = pipe.readline().split()
                if len(words) != 2:
                    _end_as(-signal.SIGKILL)  # the whole sandbox was killed
                if words[1] == b"0":
                    os.waitpid(child, 0)
                _end_as(int(words[0]))
            os.waitpid(child, 0)
            why = complaint.read()
        if not (why and left):  # a file may have vanished since the mounts were planned: try again
            os.write(2, why)
            break
    _exit_refused(OSError(errno.EIO, "the sandbox was not made"))


def _start_inside(plan: dict[str, Any], command: list[str]) -> tuple[int, int, int]:
    """Start the first process in the sandbox; return its id, the pipe on which it reports, and the
    pipe with bubblewrap's errors.
    """
    told, tell = os.pipe()
    complained, complain = os.pipe()
    mounts = plan_mounts(plan)  # while the system's sockets can still be listed
    if plan["rung"] == "namespaces":
        enter_namespaces(plan)
    child = os.fork()
    if child == 0:
        os.close(told)
        try:
            if plan["rung"] == "namespaces":
                os.close(complain)
                mount_tree(plan, mounts)
                run_inside(plan, command, tell)
            errors = os.dup(2)
            os.set_inheritable(tell, True)
            os.set_inheritable(errors, True)
            os.dup2(complain, 2)
            program = [sys.executable, "-I", "-S", "-c", plan["source"], "inside"]
            carried = json.dumps({key: plan[key] for key in plan if key != "source"})
            inside = [*program, str(tell), str(errors), carried, *command]
            argv = bubblewrap_argv(plan, mounts, inside)
            os.execv(argv[0], argv)
        except OSError as error:
            _exit_refused(error, tell)
    os.close(tell)
    os.close(complain)
    return child, told, complained


def run_inside(plan: dict[str, Any], command: list[str], tell: int) -> NoReturn:
    """Run as the first process in the sandbox: drop all rights, start the command, and wait for all
    processes.

    Writes ``+`` to ``tell`` once the sandbox is ready, then a line with the command's exit code and
    1 if processes are left of it, else 0.
    """
    os.set_inheritable(tell, False)
    os.chdir(plan["cwd"])
    _check_identity(os.stat("."), plan["here"], plan["cwd"])
    for path, identity in plan["below"].items():
        _check_identity(os.lstat(path), identity, path)
        if not os.statvfs(os.open(path, os.O_PATH | os.O_NOFOLLOW)).f_flag & os.ST_RDONLY:
            raise OSError(errno.EPERM, f"{path} is not closed")
    if plan["channel"]:
        _open_proxy(plan["channel"])
    drop_rights(plan)
    # The command must not write to our pipe: nobody can open the files of an undumpable process.
    _prctl("dumpable", _DUMPABLE, 0)
    os.write(tell, b"+")
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # signals to its own group must not reach this process
        _exec_command(command)
    for descriptor in (0, 1, 2):
        os.close(descriptor)  # so that the output ends with the command
    ended = 0
    while True:
        pid, status = os.wait()
        if pid == child:
            ended = os.waitstatus_to_exitcode(status)
            break
    left = _has_others(_SETTLE)
    os.write(tell, f"{ended} {int(left)}\n".encode())
    os.close(tell)
    while left:
        try:
            os.wait()
        except ChildProcessError:
            break
    os._exit(0)


def _open_proxy(channel: int) -> None:
    """Listen at the proxy's address and send the listening socket over ``channel`` to the app,
    which answers the requests.
    """
    import socket  # few commands need it

    with socket.socket(fileno=channel) as outside, socket.create_server(PROXY) as listening:
        socket.send_fds(outside, [b"+"], [listening.fileno()])


def _has_others(seconds: float) -> bool:
    """Wait at most so many seconds for all other processes of the sandbox to end; return whether
    any still runs.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False  # orphans become children of the first process
        if time.monotonic() > until:
            return True
        time.sleep(_LOOK)


def _exec_command(command: list[str]) -> NoReturn:
    """Replace this process with the command, with default signal handlers, limits, and ``TMPDIR``
    and ``XDG_CACHE_HOME`` in ``/tmp``. Exits with 127 if it cannot be started.
    """
    for name in (*_STOP_SIGNALS, "SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    set_limits()
    environ = {n: v for n, v in os.environ.items() if n not in ("TMP", "TEMP", "TEMPDIR")}
    environ |= {"TMPDIR": "/tmp", "XDG_CACHE_HOME": "/tmp/.cache"}
    try:
        os.execve(command[0], command, environ)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)


def _exit_refused(error: OSError, tell: int | None = None) -> NoReturn:
    """Print why the sandbox could not be set up, and exit with ``NOT_SET_UP``. With ``tell``, an
    EIO is not printed, since the process outside reports it.
    """
    if tell is None or error.errno != errno.EIO:
        why = f"the sandbox could not be set up: {error.strerror or error}; nothing was run\n"
        os.write(2, why.encode("utf-8", "replace"))
    os._exit(NOT_SET_UP)


def _end_as(code: int) -> NoReturn:
    """End this process as the command ended: with its exit code, or by its signal if ``code`` is
    negative.
    """
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def main() -> NoReturn:
    """Run ``hold PLAN COMMAND ...`` outside of the sandbox, or ``inside PIPE STDERR PLAN COMMAND
    ...`` in it.
    """
    try:
        match sys.argv[1:]:
            case ["hold", plan, *command]:
                # Our source code is the argument of ``-c``; bubblewrap runs it again.
                with open("/proc/self/cmdline", "rb") as file:
                    source = file.read().split(b"\0")[4].decode()
                run_around({**json.loads(plan), "source": source}, command)
            case ["inside", pipe, errors, plan, *command]:
                os.dup2(int(errors), 2)
                os.close(int(errors))
                run_inside(json.loads(plan), command, int(pipe))
            case _:
                raise SystemExit(2)
    except OSError as error:
        _exit_refused(error)


if __name__ == "__main__":
    main()
