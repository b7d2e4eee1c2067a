"""What the demo's model answers with the help of the small servers: a sum, the time, the weather
at a place, the products of a shop. Every figure of an answer is read from a tool's result.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from duckflow_tui.scripted.scene import Scene
from duckflow_tui.scripted.wording import language_of, texts
from duckflow_tui.state.base import JsonObject

Kind = Literal["sum", "time", "weather", "products"]

LIST: Final = "task_loop.run"

_LONGEST: Final = 120  # characters of a request that is meant for the tools
_SUM: Final = re.compile(r"[\d(][\d\s().+*/-]*[+*/-][\d\s().+*/-]*[\d)]")
_ABOUT: Final[tuple[tuple[Kind, re.Pattern[str]], ...]] = (
    (
        "weather",
        re.compile(r"\bwhere am i\b|\bweather\b|天気|いまどこ|今どこ|ここはどこ|どこにい", re.I),
    ),
    (
        "products",
        re.compile(
            r"\b(list|show|which|what)\b.*\bproducts?\b|(商品|製品).*(一覧|リスト|見せ|教え)", re.I
        ),
    ),
    (
        "time",
        re.compile(
            r"\bwhat time\b|\bwhat(’s|'s| is) the time\b|\bcurrent time\b|何時|現在時刻", re.I
        ),
    ),
    ("sum", _SUM),
)
_SIGNS: Final = (
    (re.compile(r"たす|足す|プラス"), "+"),
    (re.compile(r"ひく|引く|マイナス|−"), "-"),
    (re.compile(r"かける|掛ける|×"), "*"),
    (re.compile(r"わる|割る|÷"), "/"),
)
_MODE: Final = re.compile(r"^(?:Execution mode|実行方式) (\w+): ", re.M)
_LISTED: Final = re.compile(r"^\d+\. (mcp\.[\w.]+): (.*)$", re.M)
_COLUMN: Final = re.compile(r"[(,]\s*(\w+)\s+(?:INTEGER|TEXT|NUMERIC|REAL)\b")


def words(language: str) -> dict[str, Any]:
    """The texts of a language, ``en`` or ``ja``."""
    return texts("answers", language)


def kind_of(said: str) -> Kind | None:
    """What a message asks the tools for; None for anything else."""
    text = _plain(said)
    if len(text) > _LONGEST:
        return None
    return next((kind for kind, about in _ABOUT if about.search(text)), None)


def answer(told: str, scene: Scene) -> JsonObject:
    """The decision that answers what ``kind_of`` knows; ``told`` is the text of the request."""
    kind = kind_of(scene.said)
    assert kind is not None  # whoever asks has found it
    modes = _MODE.findall(told)
    return _Writer(kind, scene, as_list=bool(modes) and modes[-1] == "tasklist").write()


@dataclass(frozen=True, slots=True)
class _Call:
    """A step towards an answer. ``link`` replaces arguments that only a result can tell."""

    operation: str
    args: Callable[[], JsonObject | None]  # None: they cannot be known yet
    link: JsonObject | None = None

    @property
    def name(self) -> str:
        return self.operation.rpartition(".")[2]


class _Writer:
    """Writes one decision from what the results of this turn say."""

    def __init__(self, kind: Kind, scene: Scene, *, as_list: bool) -> None:
        self._kind: Kind = kind
        self._as_list = as_list
        self._said = _plain(scene.said)
        self._words = words(language_of(scene.said))
        self._problem = ""
        self._known: dict[str, JsonObject] = {}
        for result in scene.results:
            if result.outcome != "ok":
                self._problem = result.text
            elif result.operation == LIST:
                for operation, text in _LISTED.findall(result.text):
                    self._learn(operation, text)
            else:
                self._learn(result.operation, result.text)

    def _learn(self, operation: str, text: str) -> None:
        try:
            value: object = json.loads(text)
        except ValueError:
            self._problem = text
            return
        if isinstance(value, dict):
            self._known[operation] = cast("JsonObject", value)

    def write(self) -> JsonObject:
        texts = self._words[self._kind]
        missing = [call for call in self._calls() if call.operation not in self._known]
        if self._problem:
            problem = self._problem.strip().replace("\n", "\n> ")
            return self._ends(self._words["failed"].replace("{problem}", problem))
        if not missing:
            return self._ends(self._filled(texts["says"]))
        says = texts["next"] if self._known and "next" in texts else texts["asks"]
        return {
            **self._judged(self._filled(says)),
            "step": "EXECUTION",
            "next_step": "continue",
            "actions": [self._list(missing) if self._as_list else self._single(missing[0])],
        }

    # --- what has to be asked -----------------------------------------------------------------

    def _calls(self) -> tuple[_Call, ...]:
        match self._kind:
            case "sum":
                return (_Call("mcp.calculator.evaluate", self._expression),)
            case "time":
                return (_Call("mcp.clock.current_time", dict),)
            case "weather":
                return (
                    _Call("mcp.place.where_am_i", dict),
                    _Call(
                        "mcp.place.weather",
                        self._city,
                        link={"city": {"from_task": "where_am_i", "field": "city"}},
                    ),
                )
            case "products":
                return (
                    _Call("mcp.shop.list_tables", dict),
                    _Call("mcp.shop.get_table_schema", self._table, link={"table": "products"}),
                    _Call("mcp.shop.query", self._query),
                )

    def _expression(self) -> JsonObject | None:
        found = _SUM.search(self._said)
        return {"expression": " ".join(found.group().split())} if found else None

    def _city(self) -> JsonObject | None:
        place = self._known.get("mcp.place.where_am_i")
        return {"city": place["city"]} if place else None

    def _table(self) -> JsonObject | None:
        found = self._known.get("mcp.shop.list_tables")
        if found is None:
            return None
        names = cast("list[str]", found["tables"])
        return {"table": next((name for name in names if "product" in name), names[0])}

    def _query(self) -> JsonObject | None:
        schema = self._known.get("mcp.shop.get_table_schema")
        if schema is None:
            return None
        columns = [name for name in _COLUMN.findall(schema["schema"]) if name != "id"]
        return {"sql": f"SELECT {', '.join(columns)} FROM {schema['table']} ORDER BY id"}

    # --- how it is asked ------------------------------------------------------------------------

    def _single(self, call: _Call) -> JsonObject:
        """Adaptive: one action, with values that are known by now."""
        return {
            "operation": call.operation,
            "args": call.args() or {},
            "reasoning": self._words[self._kind]["rationale"],
            "intent": self._words["goal"],
        }

    def _list(self, missing: list[_Call]) -> JsonObject:
        """A list: everything that can be written down before the first of it has run."""
        tasks: list[JsonObject] = []
        for call in missing:
            args = call.args()
            args = call.link if args is None else args
            if args is None:
                break
            why = self._words[self._kind]["rationale"]
            task = {"operation": call.operation, "args": args, "description": why}
            tasks.append({**task, "id": call.name})
        return {
            "operation": LIST,
            "args": {"task_list": tasks},
            "reasoning": self._words["list_why"],
            "intent": self._words["goal"],
        }

    def _judged(self, says: str) -> JsonObject:
        rationale = self._words[self._kind]["rationale"]
        return {
            "rationale": rationale,
            "reply": says,
            "goal_consistency": {"ok": True, "reason": self._words["goal"]},
            "constraint_check": {"ok": True, "reason": rationale},
            "confidence": 0.9,
            "prompt_pattern": "base_main",
        }

    def _ends(self, says: str) -> JsonObject:
        return {**self._judged(says), "step": "REVIEW", "next_step": "done"}

    # --- what the results say ---------------------------------------------------------------------

    def _filled(self, text: str) -> str:
        values: dict[str, object] = dict(self._expression() or {}) if self._kind == "sum" else {}
        for result in self._known.values():
            values.update(result)
        for name in ("sky", "weekday"):
            if name in values:
                values[name] = self._words[name].get(values[name], values[name])
        rows = values.get("rows")
        if isinstance(rows, list):
            table = cast("list[JsonObject]", rows)
            values["count"], values["rows"] = len(table), _markdown(table)
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text


def _markdown(rows: list[JsonObject]) -> str:
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _plain(said: str) -> str:
    """Full-width figures and written-out signs as a calculator knows them."""
    text = unicodedata.normalize("NFKC", said)
    for written, sign in _SIGNS:
        text = written.sub(sign, text)
    return text
