"""Scales with a state of their own, and every way in which a server can misbehave."""

import json
import os
import subprocess
import sys
import time

from plain_mcp import serve

TEXT = {"type": "string"}
STATE = {"weights": {}, "tare": 0, "writes": 0}
TOOLS = [
    ("weigh", "Weigh a parcel.", {"type": "object", "properties": {"parcel_id": TEXT}}),
    ("tare", "Set the tare.", {"type": "object", "properties": {"grams": {"type": "integer"}}}),
    ("show", "Show something of the process.", {"type": "object", "properties": {"what": TEXT}}),
    ("misbehave", "Do what no server must.", {"type": "object", "properties": {"how": TEXT}}),
    ("hidden", "Not for agents.", {"type": "object", "properties": {}}),
    ("__reserved__init", "", {"type": "object", "properties": {"config": {}, "session_id": TEXT}}),
    ("__reserved__geteffects", "", {"type": "object", "properties": {}}),
    ("__reserved__teardown", "", {"type": "object", "properties": {}}),
]


def call(name, arguments):
    answer = ACTIONS[name](**arguments)
    if isinstance(answer, str):
        return answer, True
    return json.dumps(answer), False


def weigh(parcel_id=""):
    if parcel_id not in STATE["weights"]:
        return "There is no such parcel."
    return {"grams": STATE["weights"][parcel_id] - STATE["tare"]}


def tare(grams=0):
    STATE["tare"] = grams
    STATE["writes"] += 1
    return {"tare": grams}


def show(what=""):
    if what == "limits":
        import resource

        names = ("DATA", "NOFILE", "FSIZE", "CORE")
        return {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0] for name in names}
    facts = {
        "environment": dict(os.environ),
        "account": [os.getuid(), os.getgid(), os.getgroups()],
        "process": [os.getpid(), os.getpgid(0), os.getsid(0)],
    }
    return facts[what]


def misbehave(how=""):
    if how == "exit":
        sys.exit(3)
    if how == "hang":
        time.sleep(600)
    if how == "babble":
        print("this is no message", flush=True)
    if how == "long":
        return {"text": "x" * (2 << 20)}
    if how == "daemon":
        subprocess.Popen(["sleep", "600"], start_new_session=True)
    if how == "shout":
        print("the golden weight is 999", file=sys.stderr, flush=True)
        sys.exit(4)
    if how == "eat":
        hoard = [b"x" * (64 << 20) for _ in range(16)]
        return {"eaten": len(hoard)}
    return {"how": how}


def init(config, session_id):
    assert len(session_id) == 32
    if config.get("refuse"):
        return {"status": "error"}
    STATE["weights"] = config["weights"]
    return {}


ACTIONS = {
    "weigh": weigh,
    "tare": tare,
    "show": show,
    "misbehave": misbehave,
    "hidden": lambda: {"secret": 999},
    "__reserved__init": init,
    "__reserved__geteffects": lambda: {"tare": STATE["tare"], "writes": STATE["writes"]},
    "__reserved__teardown": lambda: {},
}
serve(TOOLS, call, "scales")
