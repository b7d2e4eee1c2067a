"""The endpoints that the user added on the screen, with the models chosen for roles, favourites,
and keys.

``connections.json`` in the program's data folder holds everything except keys; settings and flags
take precedence over it. A key is stored in the system's keyring if the ``keyring`` library is
installed and works, else in ``keys.json`` (mode 0600); or only the name of its environment variable
is stored. Methods may block on the disk or keyring, so the UI calls them in a thread.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import threading
import time
from collections.abc import Collection, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, field_validator

from duckflow_tui.llm.endpoints import KEPT_KEY, Endpoint, ModelRef
from duckflow_tui.places import lock_folder, read_plain_file, write_private
from duckflow_tui.state.usage import Role

FILE_NAME: Final = "connections.json"
KEYS_NAME: Final = "keys.json"
SERVICE: Final = "duckflow-tui"  # under which the keyring files the keys
MAX_FILE: Final = 256 * 1024  # bytes of either file that are read
KEYRING_S: Final = 3.0  # seconds that a keyring has to give a key
UNLOCK_S: Final = 60.0  # seconds that it has to take one: it may ask the user for a password

KeyPlace = Literal["none", "variable", "keyring", "file"]

_KEYS: Final = TypeAdapter(dict[str, str])


class ModelLine(BaseModel, frozen=True, extra="ignore"):
    """The description of a model in a server's list."""

    id: str
    context: int = 0  # tokens of its window; 0: the server does not say
    price_in: float | None = None  # US dollars for a million tokens; None: it does not say
    price_out: float | None = None
    price_cached: float | None = None  # of prompt that came from a cache
    price_write: float | None = None  # of prompt that was written to a cache
    sees: bool | None = None  # whether it takes pictures; None: the server does not say
    date: str = ""  # YYYY-MM-DD of the description; empty: today, or unknown if stored

    @property
    def with_date(self) -> ModelLine:
        """A copy with today's date, unless it has a date."""
        today = time.strftime("%Y-%m-%d", time.gmtime())
        return self if self.date else self.model_copy(update={"date": today})


class ModelConnection(BaseModel, frozen=True, extra="ignore"):
    """An endpoint that the user added."""

    name: str = Field(min_length=1, max_length=40, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    base_url: str
    key_place: KeyPlace = "none"
    variable: str = ""  # the environment variable with the key, where ``key_place`` is that

    @property
    def key_name(self) -> str:
        """The name of the variable that holds the key; empty without one."""
        if self.key_place == "none":
            return ""
        return self.variable or KEPT_KEY + re.sub(r"[^A-Z0-9]+", "_", self.name.upper())

    @property
    def endpoint(self) -> Endpoint:
        """The connection as an Endpoint; raises ValidationError for an invalid address."""
        return Endpoint(name=self.name, base_url=self.base_url, api_key_env=self.key_name)


_Model = Annotated[str, AfterValidator(lambda text: str(ModelRef.parse(text)))]


class _Kept(BaseModel, extra="ignore"):
    """The content of ``connections.json``."""

    connections: dict[str, ModelConnection] = {}
    roles: dict[Role, _Model] = {}
    favourites: list[_Model] = []
    models: dict[_Model, ModelLine] = {}

    @field_validator("connections")
    @classmethod
    def _each_has_an_address(cls, value: dict[str, ModelConnection]) -> dict[str, ModelConnection]:
        """Raise ValidationError for a connection with an invalid address."""
        return {one.name: one for one in value.values() if one.endpoint}


class Connections:
    """The stored connections. The file is read at construction and again, under a lock, before each
    change, which is written immediately.

    An unreadable file counts as empty, and ``problem`` says why. A change renames a damaged file,
    also the file of keys, and adds its new name to ``put_aside``. Changes raise OSError if the disk
    fails or another process holds the lock for ``LOCK_S`` seconds.
    """

    def __init__(self, folder: Path, keys: KeyStore | None = None) -> None:
        """``folder`` is the program's data folder."""
        self.path = folder / FILE_NAME
        self.keys = keys or KeyStore(folder)
        self.put_aside = self.keys.put_aside
        self.problem = ""
        self._kept = _Kept()
        try:
            self._kept = self._read_file()
        except (OSError, ValueError) as error:
            self.problem = str(error)

    @property
    def all(self) -> tuple[ModelConnection, ...]:
        """All connections, in the order in which they were added."""
        return tuple(self._kept.connections.values())

    @property
    def roles(self) -> Mapping[Role, ModelRef]:
        """The model chosen for each role, without roles that have none."""
        return {role: ModelRef.parse(text) for role, text in self._kept.roles.items()}

    @property
    def favourites(self) -> tuple[ModelRef, ...]:
        """The favourite models, in the order in which they were marked."""
        return tuple(ModelRef.parse(text) for text in self._kept.favourites)

    def find_connection(self, name: str) -> ModelConnection | None:
        """Return the connection of that name, or None."""
        return self._kept.connections.get(name)

    @property
    def lines(self) -> dict[ModelRef, ModelLine]:
        """The server's description of each chosen model, as it was when the model was chosen."""
        return {ModelRef.parse(text): line for text, line in self._kept.models.items()}

    def free_name(self, wanted: str) -> str:
        """Return an unused name for a new connection, made from ``wanted`` and, if needed, a
        number.
        """
        base = re.sub(r"[^A-Za-z0-9_.-]+", "-", wanted).strip("-._")[:32] or "server"
        taken, name, number = self._kept.connections, base, 1
        while name in taken:
            number += 1
            name = f"{base}-{number}"
        return name

    def add_connection(self, connection: ModelConnection, secret: str = "") -> ModelConnection:
        """Store a connection, replacing one of the same name, and its key if ``secret`` is given.
        Returns the connection with the place where the key was stored.
        """
        if secret:
            in_file = connection.key_place == "file"
            place = self.keys.put_secret(_user_of(connection), secret, in_file=in_file)
            connection = connection.model_copy(update={"key_place": place, "variable": ""})
        with self._edit_file() as kept:
            kept.connections[connection.name] = connection
        return connection

    def forget_connection(self, name: str) -> None:
        """Remove a connection, its key, and the choices of its models."""
        connection = self.find_connection(name)
        if connection is None:
            return
        if connection.key_place in ("keyring", "file"):
            self.keys.drop_secret(_user_of(connection))
        with self._edit_file() as kept:
            kept.connections.pop(name, None)
            begin = f"{name}/"
            kept.roles = {r: text for r, text in kept.roles.items() if not text.startswith(begin)}
            kept.favourites = [text for text in kept.favourites if not text.startswith(begin)]
            kept.models = {t: line for t, line in kept.models.items() if not t.startswith(begin)}

    def choose_model(
        self, ref: ModelRef, role: Role = "main", line: ModelLine | None = None
    ) -> None:
        """Choose a model for a role; ``line`` is the server's description of it."""
        text = str(ref)
        with self._edit_file() as kept:
            kept.roles[role] = text
            if line is not None:
                kept.models[text] = line.with_date

    def set_favourite(self, ref: ModelRef, favourite: bool = True) -> None:
        """Add a model to the favourites, or remove it."""
        with self._edit_file() as kept:
            kept.favourites = [text for text in kept.favourites if text != str(ref)]
            if favourite:
                kept.favourites.append(str(ref))

    def stored_keys(self, names: Collection[str]) -> dict[str, str]:
        """Return the stored keys of the named connections, by ``key_name``, to add to the
        environment. Keys that cannot be read are left out.
        """
        kept = (c for c in self.all if c.name in names and c.key_place in ("keyring", "file"))
        secrets = {one.key_name: self.keys.get_secret(_user_of(one)) for one in kept}
        return {name: secret for name, secret in secrets.items() if secret}

    def _read_file(self) -> _Kept:
        """Read and validate the file; raises OSError and ValueError."""
        data = _read_file(self.path)
        return _Kept.model_validate_json(data) if data else _Kept()

    @contextlib.contextmanager
    def _edit_file(self) -> Generator[_Kept]:
        """Lock and read the file, yield its content for changes, then write it."""
        with lock_folder(self.path.parent):
            try:
                kept = self._read_file()
            except ValueError:
                kept = _Kept()
                self.put_aside.append(_put_aside(self.path))
            yield kept
            write_private(self.path, kept.model_dump_json(indent=1).encode())
        self._kept = kept
        self.problem = ""


@dataclass(slots=True)
class KeyStore:
    """Stores keys, each bound to the origin that it may be sent to (R11)."""

    folder: Path
    library: Any = None  # the module ``keyring``, which has no types; else imported when needed
    seconds: tuple[float, float] = (KEYRING_S, UNLOCK_S)
    put_aside: list[Path] = field(default_factory=list[Path])  # new paths of damaged files
    _looked: bool = field(default=False, init=False)

    @property
    def file(self) -> Path:
        """The file for keys that are not in a keyring; only this user can read it."""
        return self.folder / KEYS_NAME

    def find_place(self) -> Literal["keyring", "file"]:
        """Return where the next key would be stored. The first call looks for a working keyring."""
        if not self._looked:
            self._looked = True
            try:
                self.library = self.library or importlib.import_module("keyring")
                backend = self._ask_keyring(self.seconds[0], "get_keyring")
                module = type(backend).__module__
                if float(backend.priority) <= 0 or "plaintext" in module:
                    self.library = None
            except Exception:  # noqa: BLE001 - back ends raise whatever they like
                self.library = None
        return "file" if self.library is None else "keyring"

    def put_secret(
        self, user: str, secret: str, *, in_file: bool = False
    ) -> Literal["keyring", "file"]:
        """Store a secret under a name, which includes its origin; return the place. Uses the file
        if the keyring refuses or does not answer in time, or with ``in_file``. Raises OSError.
        """
        if not in_file and self.find_place() == "keyring":
            try:
                self._ask_keyring(self.seconds[1], "set_password", SERVICE, user, secret)
            except Exception:  # noqa: BLE001
                self.library = None
            else:
                self._write_key(user, "")
                return "keyring"
        self._write_key(user, secret)
        return "file"

    def get_secret(self, user: str) -> str:
        """Return the secret of that name, from the file or else the keyring; empty if neither has
        it or it cannot be read.
        """
        with contextlib.suppress(OSError, ValueError):
            if secret := self._read_keys().get(user):
                return secret
        with contextlib.suppress(Exception):  # back ends raise whatever they like
            if self.find_place() == "keyring":
                return self._ask_keyring(self.seconds[0], "get_password", SERVICE, user) or ""
        return ""

    def drop_secret(self, user: str) -> None:
        """Delete the secret of that name from the file and the keyring, whose errors are ignored.
        Raises OSError.
        """
        self._write_key(user, "")
        if self.find_place() == "keyring":
            with contextlib.suppress(Exception):  # it is not there, or the keyring is closed
                self._ask_keyring(self.seconds[0], "delete_password", SERVICE, user)

    def _ask_keyring(self, seconds: float, method: str, *arguments: str) -> Any:
        """Call the keyring in a thread and return its answer. A call that hangs, as with a locked
        keyring, is abandoned. Raises TimeoutError after ``seconds``, or the keyring's exception.
        """
        answer: Future[Any] = Future()
        ask = getattr(self.library, method)

        def run() -> None:
            """Make the call and pass on its result or exception."""
            try:
                answer.set_result(ask(*arguments))
            except BaseException as error:  # noqa: BLE001 - it is raised in the other thread
                answer.set_exception(error)

        threading.Thread(target=run, name="keyring", daemon=True).start()
        return answer.result(seconds)

    def _read_keys(self) -> dict[str, str]:
        """Read the file of keys; raises OSError, and ValueError if it is damaged."""
        return _KEYS.validate_json(_read_file(self.file) or b"{}")

    def _write_key(self, user: str, secret: str) -> None:
        """Store a key in the file, or delete it if ``secret`` is empty."""
        with lock_folder(self.folder):
            try:
                held = self._read_keys()
            except ValueError:
                held = {}
                if secret:
                    self.put_aside.append(_put_aside(self.file))
            if held.get(user, "") == secret:
                return
            held[user] = secret
            held = {name: key for name, key in held.items() if key}
            write_private(self.file, json.dumps(held, indent=1).encode())


def _user_of(connection: ModelConnection) -> str:
    """Return the name under which a connection's key is stored."""
    return f"{connection.endpoint.origin} {connection.name}"


def _put_aside(path: Path) -> Path:
    """Rename a damaged file to an unused name beside it; return that. Raises OSError."""
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    return path.rename(aside)


def _read_file(path: Path) -> bytes:
    """Read a file; empty if there is none. Raises OSError, and ValueError if it is too large."""
    try:
        data = read_plain_file(path, MAX_FILE + 1)
    except FileNotFoundError:
        return b""
    if len(data) > MAX_FILE:
        raise ValueError(f"{path} is over {MAX_FILE // 1024} KB")
    return data
