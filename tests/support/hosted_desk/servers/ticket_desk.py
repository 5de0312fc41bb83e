"""A help desk as an MCP server over stdin and stdout, with the reserved tools that ThinkingBox servers
have: state in memory, golden calls replayed inside, a knowledge base. Only the standard library."""

import asyncio
import datetime
import hashlib
import json
import os
import signal
import sys
import time

TEXT = {"type": "string"}
SEED = [{"id": 1, "about": "chair"}]
STATE = {"tickets": [], "config": {}}


def fresh(config):
    rows = {row["id"]: dict(row) for row in SEED}
    for row in config.get("data_patch", {}).get("tickets", []):
        rows[row["id"]] = dict(row)
    return list(rows.values())


def opened(tickets, about):
    ticket = {"id": max(row["id"] for row in tickets) + 1, "about": about}
    tickets.append(ticket)
    return ticket


def hash_of(tickets):
    return hashlib.sha256(
        json.dumps(sorted(tickets, key=lambda row: row["id"])).encode()
    ).hexdigest()


def init(config):
    if config.get("refuse"):
        return {"status": "error", "message": "refused"}
    STATE.update(tickets=fresh(config), config=config)
    return {"status": "ok", "tickets": len(STATE["tickets"])}


def effects():
    golden = fresh(STATE["config"])
    for step in STATE["config"].get("golden_test_case", {}).get("tool_interactions", []):
        opened(golden, **step["parameters"])
    same = golden == STATE["tickets"]
    return {
        "initial_db_state": {"tickets": fresh(STATE["config"])},
        "result_db_state": {"tickets": STATE["tickets"]},
        "result_db_hash": hash_of(STATE["tickets"]),
        "golden_db_state": {"tickets": golden},
        "golden_db_hash": hash_of(golden),
        "diff": [] if same else [{"path": "tickets", "result": STATE["tickets"], "golden": golden}],
        "rubrics": STATE["config"].get("rubrics", {}),
        "rubrics_yesno": STATE["config"].get("rubrics_yesno", []),
    }


def today():
    return {
        "date": datetime.date.today().isoformat(),
        "utc": datetime.datetime.now(datetime.UTC).isoformat(),
        "naive": datetime.datetime.now().isoformat(),
        "time": time.time(),
        "year": time.gmtime().tm_year,
        "text": time.strftime("%Y-%m-%d"),
        "is_kind": isinstance(datetime.datetime(2020, 1, 1), datetime.datetime),
        "loop": time.monotonic() > 0,
    }


def search_policy(query, max_results=3):
    import knowledge

    return knowledge.search(STATE["config"].get("sources", []), query, max_results)


def about_process():
    return {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "account": [os.getuid(), os.getgid(), os.getgroups()],
        "environment": dict(os.environ),
        "arguments": sys.argv,
        "folder": os.getcwd(),
        "files": sorted(os.listdir("/proc/self/fd")),
        "imported": "asyncio" in sys.modules,
    }


def misbehave(how):
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        sys.exit(3)
    if how == "late":
        time.sleep(600)
    return {"how": how}


TOOLS = {
    "list_tickets": (lambda: STATE["tickets"], "List all tickets.", {}),
    "open_ticket": (lambda about: opened(STATE["tickets"], about), "Open one.", {"about": TEXT}),
    "today": (today, "What day it is.", {}),
    "search_policy": (search_policy, "Search the rules.", {"query": TEXT}),
    "about_process": (about_process, "Not for agents.", {}),
    "misbehave": (misbehave, "Not for agents.", {"how": TEXT}),
    "__reserved__init": (init, "", {"config": {"type": "object"}}),
    "__reserved__geteffects": (effects, "", {}),
    "__reserved__teardown": (dict, "", {}),
}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "desk", "version": "1"},
        }
    if method == "tools/list":
        return {
            "tools": [
                {
                    "name": name,
                    "description": text,
                    "inputSchema": {"type": "object", "properties": s},
                }
                for name, (_, text, s) in TOOLS.items()
            ]
        }
    if method != "tools/call":
        return None
    try:
        text = json.dumps(TOOLS[params["name"]][0](**params.get("arguments") or {}))
    except TypeError as error:
        text = json.dumps({"error": str(error)})
    return {"content": [{"type": "text", "text": text}], "isError": False}


async def main():
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        message = json.loads(line)
        if "id" in message:
            found = answer(message["method"], message.get("params") or {})
            told = (
                {"error": {"code": -32601, "message": "no"}} if found is None else {"result": found}
            )
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
