"""A server of the official library that keeps its connection open between calls."""

import os

import psycopg
from mcp.server.mcpserver import MCPServer

server = MCPServer("books")
connection = psycopg.connect(os.environ["LEDGER_DSN"], autocommit=True)


@server.tool()
def book(entry_id: int, amount: float, note: str) -> dict[str, int]:
    """Add an entry."""
    connection.execute("INSERT INTO entries VALUES (%s, %s, %s)", (entry_id, amount, note))
    return {"booked": entry_id}


@server.tool()
def prepare(config: dict[str, str]) -> dict[str, str]:
    """Of the env-server alone."""
    assert config == {"currency": "EUR"}
    return {"status": "ok"}


server.run("stdio")
