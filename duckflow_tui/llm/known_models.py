"""Known facts about models by name: context window, abilities, prices.

The catalogue ``models.toml`` ships with the program. Descriptions from endpoints override it, the
newer of two first: lists that the user refreshed, and single models that the user chose. Settings
override everything.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, Field, ValidationError

from duckflow_tui.llm.connections import Connections, ModelLine
from duckflow_tui.llm.endpoints import Endpoint
from duckflow_tui.places import lock_folder, write_private
from duckflow_tui.state.usage import Api

FILE_NAME: Final = "models.json"
_MOST: Final = 16 * 1024 * 1024  # bytes of the file that are read

Ability = Literal["tools", "schema", "reasoning", "vision"]
Price = float | None  # US dollars for a million tokens; None: unknown

#: The date that makers append to model names.
_DATED: Final = re.compile(r"-(?:\d{8}|\d{4}-\d\d-\d\d|latest|0)$")


class Prices(BaseModel, frozen=True, extra="forbid"):
    """Prices of a model in US dollars per million tokens; None if unknown."""

    prompt: Price = None
    cached: Price = None  # of prompt that came from a cache; unknown, it costs as the rest
    write: Price = None  # of prompt that was written to a cache; unknown, it costs as the rest
    reply: Price = None
    long_above: int = 0  # tokens of prompt, more of which raise the prices of a whole request
    long_prompt: float = 1.0  # factor of the prompt's prices then
    long_reply: float = 1.0  # factor of the reply then

    def cost_of(self, prompt: int, cached: int, written: int, reply: int) -> float | None:
        """Return the cost of a request in US dollars from its token counts; ``cached`` and
        ``written`` are parts of ``prompt``. None if the prices of both prompt and reply are
        unknown.
        """
        if self.prompt is None and self.reply is None:
            return None
        full = self.prompt or 0.0
        read = full if self.cached is None else self.cached
        write = full if self.write is None else self.write
        asked = (prompt - cached - written) * full + cached * read + written * write
        said = reply * (self.reply or 0.0)
        if self.long_above and prompt > self.long_above:
            asked, said = asked * self.long_prompt, said * self.long_reply
        return (asked + said) / 1_000_000


class ModelFacts(BaseModel, frozen=True, extra="forbid"):
    """The known facts about a model. ``date``: the date of the facts, empty if nothing is known."""

    context: int = Field(default=0, ge=0)  # tokens of the window; 0: unknown
    prices: Prices = Prices()
    abilities: tuple[Ability, ...] = ()
    api: Api = "chat"
    """The API that the model's maker wants for native calls with thinking."""
    sees: bool | None = None
    """Whether it takes pictures; None: unknown."""
    date: str = ""


class _Family(BaseModel, frozen=True, extra="forbid"):
    """Facts about all models whose names begin alike."""

    begins: str
    context: int = Field(ge=1)
    abilities: tuple[Ability, ...] = ()


class _Maker(BaseModel, frozen=True, extra="forbid"):
    """Prices and APIs of the models at one maker's origins."""

    origins: tuple[str, ...]
    responses: tuple[str, ...] = ()  # how names begin of models that want the Responses API
    prices: dict[str, Prices] = {}

    def prices_of(self, model: str) -> Prices | None:
        """Return the prices of a model by its full name; None if unknown."""
        wanted = _spell_alike(_DATED.sub("", model))
        alike = (prices for name, prices in self.prices.items() if _spell_alike(name) == wanted)
        return next(alike, None)


class _Packaged(BaseModel, frozen=True, extra="forbid"):
    """The content of ``models.toml``."""

    date: str
    family: tuple[_Family, ...]
    maker: tuple[_Maker, ...]


class Refreshed(BaseModel, frozen=True, extra="ignore"):
    """An endpoint's list of models, with the date it was fetched."""

    date: str
    models: dict[str, ModelLine]


def _spell_alike(name: str) -> str:
    """Return a model name with dots as hyphens, because both are used for versions."""
    return name.replace(".", "-")


class _File(BaseModel, frozen=True, extra="ignore"):
    """The content of ``models.json``: refreshed lists by origin."""

    origins: dict[str, Refreshed] = {}


@cache
def load_packaged() -> _Packaged:
    """Load the catalogue that ships with the program; cached."""
    text = resources.files("duckflow_tui.llm").joinpath("models.toml").read_text(encoding="utf-8")
    return _Packaged.model_validate(tomllib.loads(text))


class KnownModels:
    """Facts about models from the catalogue, overridden by descriptions from endpoints."""

    def __init__(
        self,
        folder: Path | None = None,
        chosen: Mapping[tuple[str, str], ModelLine] | None = None,
    ) -> None:
        """``folder`` is the program's data folder; None to read and write no file. An unreadable
        file counts as empty. ``chosen`` are descriptions of the models that the user chose, by
        origin and name.
        """
        self._chosen = chosen or {}
        self._path = folder / FILE_NAME if folder is not None else None
        self.refreshed: Mapping[str, Refreshed] = {}  # by origin
        self._read_file()

    @classmethod
    def load(cls, kept: Connections) -> KnownModels:
        """Load the facts, with the descriptions of chosen models in ``kept``. Blocks on
        the disk.
        """
        chosen: dict[tuple[str, str], ModelLine] = {}
        for ref, line in kept.lines.items():
            if (connection := kept.find_connection(ref.endpoint)) is not None:
                chosen[connection.endpoint.origin, ref.model] = line
        return cls(kept.path.parent, chosen)

    def facts_of(self, origin: str, model: str) -> ModelFacts:
        """Return the known facts about a model at an origin; unknown fields have their defaults."""
        known, bare = load_packaged(), model.rpartition("/")[2].lower()
        found = ModelFacts()
        for family in known.family:
            if bare.startswith(family.begins):
                found = ModelFacts(
                    context=family.context,
                    abilities=family.abilities,
                    sees="vision" in family.abilities if family.abilities else None,
                    date=known.date,
                )
                break
        for maker in known.maker:
            if origin in maker.origins and bare.startswith(maker.responses):
                found = found.model_copy(update={"api": "responses"})
            if origin in maker.origins and (prices := maker.prices_of(bare)):
                found = found.model_copy(update={"prices": prices})
        said: list[tuple[str, ModelLine]] = []
        if (asked := self.refreshed.get(origin)) is not None and model in asked.models:
            said.append((asked.date, asked.models[model]))
        if (line := self._chosen.get((origin, model))) is not None:
            said.append((line.date, line))
        for date, line in sorted(said, key=lambda dated: dated[0]):
            update: dict[str, object] = {"context": line.context or found.context, "date": date}
            if line.price_in is not None and line.price_out is not None:  # one list, not two
                update["prices"] = Prices(
                    prompt=line.price_in,
                    cached=line.price_cached,
                    write=line.price_write,
                    reply=line.price_out,
                )
            if line.sees is not None:
                update["sees"] = line.sees
            found = found.model_copy(update=update)
        return found

    def facts_at(self, endpoint: Endpoint, model: str) -> ModelFacts:
        """Return the facts about a model at an endpoint: the endpoint's settings, else the known
        facts. Prices are never mixed: if the settings price prompt or reply, known prices do not
        apply.
        """
        facts = self.facts_of(endpoint.origin, model)
        update: dict[str, object] = {"context": endpoint.context or facts.context}
        if endpoint.price_in is not None or endpoint.price_out is not None:
            update["prices"] = Prices(
                prompt=endpoint.price_in, cached=endpoint.price_cached, reply=endpoint.price_out
            )
        elif endpoint.price_cached is not None:
            cached = {"cached": endpoint.price_cached}
            update["prices"] = facts.prices.model_copy(update=cached)
        return facts.model_copy(update=update)

    def with_chosen(self, origin: str, line: ModelLine | None) -> KnownModels:
        """Return a copy with the server's current description of a model added; self if ``line`` is
        None.
        """
        if line is None:
            return self
        made = KnownModels(None, {**self._chosen, (origin, line.id): line.with_date})
        made.refreshed = self.refreshed
        return made

    def _read_file(self) -> None:
        """Read the file of refreshed lists, if there is one; errors are ignored."""
        if self._path is not None:
            with suppress(OSError, ValidationError):
                if self._path.stat().st_size <= _MOST:
                    self.refreshed = _File.model_validate_json(self._path.read_bytes()).origins

    def keep_lines(self, origin: str, lines: Sequence[ModelLine], date: str) -> None:
        """Store an endpoint's list of models, replacing its previous one. Lists that other
        processes stored are kept. Raises OSError.
        """
        new = Refreshed(date=date, models={line.id: line for line in lines})
        if self._path is None:
            self.refreshed = {**self.refreshed, origin: new}
            return
        with lock_folder(self._path.parent):
            self._read_file()
            self.refreshed = {**self.refreshed, origin: new}
            text = _File(origins=dict(self.refreshed)).model_dump_json(indent=1)
            write_private(self._path, text.encode())
