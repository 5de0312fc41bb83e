"""The desk's tools: any statement on rows, so that tests can reach any end state."""

from env_server.toolkit import READ, WRITE, Call, tool


@tool(WRITE)
async def run_sql(call: Call, statement: str) -> dict:
    """Run one statement that reads or changes rows."""
    await call.db.execute(statement)
    return {"rows": call.db.rowcount}


@tool(READ)
async def read_sql(call: Call, statement: str) -> dict:
    """Run one statement in a read-only transaction."""
    await call.db.execute(statement)
    return {"rows": call.db.rowcount}
