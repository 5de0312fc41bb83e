"""What stands between a task of a dataset and an env-server that hosts it, and what it needs besides."""

import re
from collections.abc import Mapping

from envfarm_cli.thinkingbox.dataset import Hydrated
from envfarm_cli.thinkingbox.server_list import Server

RESERVED = "__reserved__"
_SERVER = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_JUDGE = re.compile(r"\bjudge\s*\.\s*\w+\s*\(")


def obstacles(task: Hydrated, servers: Mapping[str, Server]) -> list[str]:
    """Why the task cannot be hosted as it stands, in words; empty when nothing is known."""
    content = task.content
    found: list[str] = []
    for name in content["world_state"]:
        if name not in servers:
            found.append(f"server {name} is not in the servers file")
        else:
            found += servers[name].obstacles
        if not _SERVER.fullmatch(name):
            found.append(f"{name!r} cannot be the name of a mounted server")
    if not content["world_state"]:
        found.append("it names no server")
    if content["tags"]["skip"]:
        found.append("its dataset skips it")
    if content["format_query"]:
        found.append("its query is formatted with what a server's init answers")
    found += [f"fixture {name} is code of its dataset" for name in content["fixtures"]]
    for tool in content["tools"]:
        if tool["name"].startswith(RESERVED):
            found.append(f"it offers the reserved tool {tool['name']}")
    if any(message["T"] != "Text" for message in content["history"] or []):
        found.append("its history holds tool calls, which must be replayed")
    return found


def needs(task: Hydrated) -> list[str]:
    """What a harness must be able to do for it: of people's interest, no obstacle by itself."""
    content = task.content
    tools = [*content["agent"]["builtin_tools"], *content["tools"]]
    told = {
        "judge": bool(_JUDGE.search(content["test_code"])),
        "user simulator": content["user_context"] is not None,
        "end-of-turn tools": any(tool["is_end_turn"] for tool in tools),
        "direct responses": any(tool["direct_response"] is not None for tool in tools),
        "history": content["history"] is not None,
        "several servers": len(content["world_state"]) > 1,
    }
    return [name for name, is_so in told.items() if is_so]
