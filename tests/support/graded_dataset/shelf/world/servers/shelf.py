"""A shelf that keeps its books in memory and knows nothing of a right end."""

import hashlib
import json

from plain_mcp import serve

TEXT = {"type": "string"}
BOTH = {"type": "object", "properties": {"book": TEXT, "person": TEXT}}
STATE = {"books": [], "loans": []}
FIRST = {}
TOOLS = [
    ("lend", "Lend a book to a person.", BOTH),
    ("look", "Look at a book.", {"type": "object", "properties": {"book": TEXT}}),
    ("__reserved__init", "", {"type": "object", "properties": {"config": {}}}),
    ("__reserved__geteffects", "", {"type": "object", "properties": {}}),
]


def call(name, arguments):
    answer = ACTIONS[name](**arguments)
    return (answer, True) if isinstance(answer, str) else (json.dumps(answer), False)


def init(config):
    STATE["books"] = config["data_patch"]["books"]
    FIRST.update(json.loads(json.dumps(STATE)))
    return {"status": "ok"}


def look(book=""):
    return next((item for item in STATE["books"] if item["id"] == book), "There is no such book.")


def lend(book="", person=""):
    found = look(book)
    if isinstance(found, str):
        return found
    found["lent_to"] = person
    STATE["loans"].append({"id": len(STATE["loans"]) + 1, "book": book})
    return found


def effects():
    return {
        "initial_db_state": FIRST,
        "result_db_state": STATE,
        "result_db_hash": digest(STATE),
        "golden_db_state": FIRST,
        "golden_db_hash": digest(FIRST),
        "diff": [],
        "rubrics": [],
        "rubrics_yesno": [],
    }


def digest(state):
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


ACTIONS = {"lend": lend, "look": look, "__reserved__init": init, "__reserved__geteffects": effects}
serve(TOOLS, call, "shelf")
