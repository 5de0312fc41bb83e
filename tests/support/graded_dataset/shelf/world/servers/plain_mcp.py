"""A server of the Model Context Protocol over stdin and stdout in plain Python, for tests that must
start hundreds of them: no package is imported but the standard library."""

import json
import sys


def serve(tools, call, name):
    """`tools` are (name, description, schema); `call(name, arguments)` answers (text, is_error)."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        method, params = message["method"], message.get("params") or {}
        if method == "initialize":
            answer["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": name, "version": "1"},
            }
        elif method == "tools/list":
            answer["result"] = {
                "tools": [
                    {"name": tool, "description": text, "inputSchema": schema}
                    for tool, text, schema in tools
                ]
            }
        elif method == "tools/call":
            text, is_error = call(params["name"], params.get("arguments") or {})
            answer["result"] = {
                "content": [{"type": "text", "text": text}],
                "isError": is_error,
            }
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        print(json.dumps(answer), flush=True)
