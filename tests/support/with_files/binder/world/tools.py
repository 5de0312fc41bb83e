"""The binder's tools; the last ones exist so that tests can misbehave."""

from env_server.toolkit import READ, WRITE, Call, FileView, Refused, tool


def folder(call: Call) -> FileView:
    assert call.files is not None
    return call.files


@tool(READ)
async def list_files(call: Call) -> list[str]:
    """List all files."""
    return folder(call).paths()


@tool(READ)
async def read_file(call: Call, path: str) -> str:
    """Read a file."""
    return folder(call).read_text(path)


@tool(WRITE)
async def write_file(call: Call, path: str, text: str) -> str:
    """Write a file."""
    folder(call).write(path, text)
    return "Written."


@tool(WRITE)
async def delete_file(call: Call, path: str) -> str:
    """Delete a file."""
    folder(call).delete(path)
    return "Deleted."


@tool(WRITE)
async def mark_sent(call: Call, letter_id: str) -> str:
    """Mark a letter as answered."""
    await call.db.execute(
        "UPDATE letters SET status = 'sent' WHERE letter_id = %s RETURNING 1", (letter_id,)
    )
    if not await call.db.fetchone():
        raise Refused(f"There is no letter {letter_id}.")
    return "Sent."


@tool(WRITE)
async def write_binary(call: Call, path: str, hexadecimal: str) -> str:
    """Write bytes."""
    folder(call).write(path, bytes.fromhex(hexadecimal))
    return "Written."


@tool(WRITE)
async def write_and_refuse(call: Call, path: str) -> str:
    """Write a file and a row, then change your mind."""
    folder(call).write(path, "never")
    await call.db.execute("UPDATE letters SET status = 'never'")
    raise Refused("No.")


@tool(READ)
async def write_while_reading(call: Call, path: str) -> str:
    """Try to write where only reading is allowed."""
    folder(call).write(path, "never")
    return "Written."
