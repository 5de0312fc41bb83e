"""A tool that reads, and one for whatever a test wants to try."""

from env_server.toolkit import READ, WRITE, Call, tool


@tool(READ)
async def parents(call: Call) -> dict:
    """All parents."""
    await call.db.execute("SELECT * FROM parents ORDER BY id")
    return {"rows": await call.db.fetchall()}


@tool(WRITE)
async def run(call: Call, query: str) -> dict:
    """Any one statement, as a hostile model would write it."""
    await call.db.execute(query)
    return {"rows": await call.db.fetchall() if call.db.description else call.db.rowcount}
