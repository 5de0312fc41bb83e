"""Tells the world's time and nothing else; it keeps nothing, so it may be started anew."""

import json
import os

from plain_mcp import serve

TOOLS = [("now", "Tell the time.", {"type": "object", "properties": {}})]


def call(name, arguments):
    return json.dumps({"now": os.environ["ENVFARM_NOW"], "pid": os.getpid()}), False


serve(TOOLS, call, "clock")
