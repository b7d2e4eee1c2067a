"""The seccomp filter of the sandbox: the system calls that a command of the model may make."""

from __future__ import annotations

import errno
import platform
import socket
import struct
from typing import NamedTuple

#: Flags of clone and unshare: mounts, cgroup, host, IPC, user, processes, network, time.
_NEW_ANY = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x80


class Machine(NamedTuple):
    """An architecture: its number for audit, and its numbers of system calls. ``modes`` are the
    calls that set a file's mode: number, position of the argument with the mode, and position of
    the one with the flags of opening, 0 where a call has none. ``denied`` calls always fail.
    """

    audit: int
    clone: int
    unshare: int
    ioctl: int
    socket: int
    modes: tuple[tuple[int, int, int], ...]
    denied: tuple[int, ...]


_NEWER = (*range(425, 434), 442, 443, 467)  # the same on every architecture

#: From the kernel's own tables: io_uring, mounts and namespaces, keyrings, bpf, perf events,
#: userfaultfd, modules, kexec, file handles, clocks, swap, quotas, accounting, reboot, raw ports.
MACHINES = {
    "x86_64": Machine(
        audit=0xC000003E,
        clone=56,
        unshare=272,
        ioctl=16,
        socket=41,
        # chmod, fchmod, fchmodat, fchmodat2, creat, mknod, mknodat, open, openat
        modes=(
            *((90, 1, 0), (91, 1, 0), (268, 2, 0), (452, 2, 0), (85, 1, 0), (133, 1, 0)),
            *((259, 2, 0), (2, 2, 1), (257, 3, 2)),
        ),
        denied=(
            *(155, 161, 165, 166, 308, 248, 249, 250, 321, 298, 323, 175, 176, 313, 246, 320),
            *(304, 159, 163, 167, 168, 169, 170, 179, 227, 305, 103, 172, 173, 153),
            *_NEWER,
        ),
    ),
    "aarch64": Machine(
        audit=0xC00000B7,
        clone=220,
        unshare=97,
        ioctl=29,
        socket=198,
        modes=((52, 1, 0), (53, 2, 0), (452, 2, 0), (33, 2, 0), (56, 3, 2)),
        denied=(
            *(41, 51, 40, 39, 268, 217, 218, 219, 280, 241, 282, 105, 106, 273, 104, 294),
            *(265, 171, 89, 224, 225, 142, 170, 60, 112, 266, 116, 58),
            *_NEWER,
        ),
    ),
}

#: clone3 and openat2 pass their flags by pointer, out of a filter's reach; programs fall back.
_HIDDEN = (435, 437)
_MAKES = 0o100 | 0o20000000  # O_CREAT and O_TMPFILE
_SET_USER, _SET_GROUP = 0o4000, 0o2000
_TO_TERMINAL = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX type into a terminal
_LOAD, _IS, _AT_LEAST, _HAS, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_LINUX_X32 = 0x40000000


def seccomp_program(machine: Machine, families: tuple[int, ...], *, shared: bool = False) -> bytes:
    """Return the filter as a BPF program; calls that it does not name are allowed. Sockets can be
    made only of these ``families``. Set-user-id and set-group-id bits cannot be set; the latter
    can if ``shared``, because folders shared by a group pass the bit on.
    """
    bits = _SET_USER if shared else _SET_USER | _SET_GROUP
    steps: list[tuple[int, int, int, int]] = []

    def answer(code: int, value: int, given: int) -> None:
        """Add two steps: compare the loaded value with ``value``, and return ``given`` where it
        fits.
        """
        steps.extend(((code, 0, 1, value), (_ANSWER, 0, 0, given)))

    steps += [(_LOAD, 0, 0, _ARCHITECTURE), (_IS, 1, 0, machine.audit)]
    steps += [(_ANSWER, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    answer(_AT_LEAST, _LINUX_X32, _FAIL | errno.ENOSYS)
    for number in _HIDDEN:
        answer(_IS, number, _FAIL | errno.ENOSYS)
    for number in machine.denied:
        answer(_IS, number, _FAIL | errno.EPERM)
    for number in (machine.clone, machine.unshare):
        steps += [(_IS, 0, 4, number), (_LOAD, 0, 0, _FIRST)]
        answer(_HAS, _NEW_ANY, _FAIL | errno.EPERM)
        steps.append((_LOAD, 0, 0, _NUMBER))
    for number, mode, flags in machine.modes:
        asked = [(_LOAD, 0, 0, _FIRST + 8 * flags), (_HAS, 0, 3, _MAKES)] if flags else []
        asked += [(_LOAD, 0, 0, _FIRST + 8 * mode), (_HAS, 0, 1, bits)]
        asked += [(_ANSWER, 0, 0, _FAIL | errno.EPERM), (_LOAD, 0, 0, _NUMBER)]
        steps += [(_IS, 0, len(asked), number), *asked]
    steps += [(_IS, 0, 6, machine.ioctl), (_LOAD, 0, 0, _SECOND)]
    for request in _TO_TERMINAL:
        answer(_IS, request, _FAIL | errno.EPERM)
    steps.append((_LOAD, 0, 0, _NUMBER))
    steps += [(_IS, 0, 2 + 2 * len(families), machine.socket), (_LOAD, 0, 0, _FIRST)]
    for family in families:
        answer(_IS, family, _ALLOW)
    steps += [(_ANSWER, 0, 0, _FAIL | errno.EACCES), (_ANSWER, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def filter_for(*, network: bool, shared: bool) -> bytes:
    """Return the filter for this machine; empty where its architecture is unknown. Without
    ``network`` Unix sockets are allowed too, since only the command's own processes can be
    reached.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return b""
    families = (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
    if not network:
        families = (socket.AF_UNIX, *families)
    return seccomp_program(machine, tuple(map(int, families)), shared=shared)
