"""The shelf's tools; the later ones exist so that tests can misbehave."""

import asyncio
import os
import signal
from typing import Literal

from env_server.toolkit import READ, WRITE, Call, Refused, tool


@tool(READ)
async def find_book(call: Call, book_id: str) -> dict:
    """Show a book and who has it."""
    await call.db.execute(
        "SELECT b.*, l.reader_id FROM books b LEFT JOIN loans l USING (book_id) WHERE book_id = %s",
        (book_id,),
    )
    row = await call.db.fetchone()
    if row is None:
        raise Refused(f"There is no book {book_id}.")
    return row


@tool(WRITE)
async def lend_book(call: Call, book_id: str, reader_id: str) -> dict:
    """Lend a book to a reader."""
    await call.db.execute(
        "INSERT INTO loans (book_id, reader_id, lent_at) VALUES (%s, %s, %s) RETURNING loan_id",
        (book_id, reader_id, call.now),
    )
    await call.db.execute("SELECT count(*) AS held FROM loans WHERE reader_id = %s", (reader_id,))
    row = await call.db.fetchone()
    if row and row["held"] > 2:
        raise Refused(f"{reader_id} would hold {row['held']} books; two are allowed.")
    return {"lent": book_id}


@tool(WRITE)
async def return_book(call: Call, book_id: str, note: str | None = None) -> dict:
    """Take a book back."""
    await call.db.execute("DELETE FROM loans WHERE book_id = %s", (book_id,))
    if call.db.rowcount == 0:
        raise Refused(f"Book {book_id} is not lent.")
    return {"returned": book_id, "note": note}


@tool(READ)
async def read_sql(call: Call, query: str) -> dict:
    """Run SQL in a read-only transaction."""
    await call.db.execute(query)
    return {"rows": await call.db.fetchall() if call.db.description else []}


@tool(WRITE)
async def write_sql(call: Call, query: str) -> dict:
    """Run SQL that may change rows."""
    await call.db.execute(query)
    return {"rows": await call.db.fetchall() if call.db.description else call.db.rowcount}


@tool(WRITE)
async def misbehave(
    call: Call,
    how: Literal["crash", "commit", "odd_result", "sleep", "kill_self"],
    seconds: float = 0,
) -> dict:
    """Do something that a tool must not do."""
    await call.db.execute("UPDATE readers SET name = name || '!' WHERE reader_id = 'R-1'")
    if how == "crash":
        raise KeyError("a bug in the tool")
    if how == "commit":
        await call.db.connection.execute("COMMIT")
    if how == "odd_result":
        return {"value": object()}
    if how == "sleep":
        await asyncio.sleep(seconds)
    if how == "kill_self":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"how": how}
