"""Reads the resources and pictures that a message of the user mentions, before it is answered."""

from __future__ import annotations

import re
from typing import Final

from duckflow_tui.safety.paths import WorkspaceError
from duckflow_tui.safety.workspace import Workspace
from duckflow_tui.state.base import IdSource, JsonObject
from duckflow_tui.state.calls import OperationMessage
from duckflow_tui.state.conversation import UserMessage
from duckflow_tui.state.decision import Action
from duckflow_tui.state.operations import Zone
from duckflow_tui.state.store import Store
from duckflow_tui.tools.mcp.offers import BEHIND, READ_RESOURCE, find_mentions
from duckflow_tui.tools.reading import READ_FILE
from duckflow_tui.tools.router import ToolRouter

_FILE: Final = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|(\S+))')
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")


async def read_mentions(store: Store, router: ToolRouter, ids: IdSource) -> None:
    """Call the read operation for each resource that the newest message of the user mentions as
    ``@server:uri``, and each picture as ``@path.png``, unless that was done already. The results
    follow the message. The calls count as the user's own, unless the message quotes somebody else
    or the picture is a secret file or lies outside, maybe behind a link: then they are judged like
    calls of the model.
    """
    made: list[tuple[str, JsonObject]] = []
    for message in reversed(store.state.messages):
        if isinstance(message, OperationMessage):
            made.append((message.operation, message.args))
        if isinstance(message, UserMessage) and not message.aside:
            break
    else:
        return
    own = not message.quoted
    mentions = find_mentions(message.text, store.state.servers)
    wanted: list[tuple[str, JsonObject, bool]] = [
        (READ_RESOURCE, named._asdict(), own) for named in mentions
    ]
    for path, zone in find_pictures(message.text, router.workspace).items():
        wanted.append((READ_FILE.name, {"path": path}, own and zone is Zone.INSIDE))
    for operation, args, by_user in wanted:
        if (operation, args) not in made:
            action = Action(call_id=ids("call"), operation=operation, args=args, reasoning="")
            await router.call(action, by_user=by_user)


def find_pictures(text: str, workspace: Workspace) -> dict[str, Zone]:
    """Return the paths of existing pictures that a message mentions as ``@path`` or ``@"path"``,
    each with the zone that it leads to. Punctuation behind a bare path is not part of it.
    """
    found: dict[str, Zone] = {}
    for quoted, bare in _FILE.findall(text):
        path = quoted or bare.rstrip(BEHIND)
        try:
            if path.lower().endswith(_PICTURES) and (place := workspace.locate_path(path)).exists:
                found[path] = place.zone
        except WorkspaceError:
            continue  # not a valid path
    return found
