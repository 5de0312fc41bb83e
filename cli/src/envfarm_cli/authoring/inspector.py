"""An MCP inspector: JSON-RPC on the agent's own door, every frame shown as it is sent and answered."""

import json
from collections.abc import Callable
from typing import Any

import httpx

ACCEPT = "application/json, text/event-stream"
SECONDS = 60.0
Show = Callable[[str, str], None]
"""Direction (→ or ←) and the frame."""


class Inspector:
    """Speaks to the MCP endpoint of one episode with its agent token."""

    def __init__(self, url: str, token: str, show: Show):
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}", "Accept": ACCEPT}
        self._show = show
        self._asked = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer's result; an error of the protocol comes back as {"error": ...}. httpx.HTTPError
        when nobody answers."""
        self._asked += 1
        frame = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self._show("→", json.dumps(frame, ensure_ascii=False))
        answer = httpx.post(
            self._url, json=frame, headers=self._headers, timeout=SECONDS, trust_env=False
        )
        self._show("←", f"{answer.status_code} {answer.text}")
        try:
            value = answer.json()
        except ValueError:
            return {"error": answer.text}
        return value.get("result", value) if isinstance(value, dict) else {"error": value}


def official_command(url: str, token: str) -> str:
    """How to look at the same endpoint with the official MCP Inspector, which needs Node.js."""
    return (
        "npx @modelcontextprotocol/inspector --cli"
        f" {url} --transport http --header 'Authorization: Bearer {token}' --method tools/list"
    )
