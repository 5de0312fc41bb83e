"""One tool, as a world must have one."""

from env_server.toolkit import READ, Call, tool


@tool(READ)
async def parents(call: Call) -> dict:
    """All parents."""
    await call.db.execute("SELECT * FROM parents ORDER BY id")
    return {"rows": await call.db.fetchall()}
