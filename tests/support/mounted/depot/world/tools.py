"""One tool of our own beside those of the servers."""

from env_server.toolkit import WRITE, Call, tool


@tool(WRITE)
async def label(call: Call, parcel_id: str, weight: int) -> dict:
    """Write a parcel's weight on its label."""
    await call.db.execute(
        "UPDATE parcels SET weight = %s WHERE parcel_id = %s", (weight, parcel_id)
    )
    return {"labelled": call.db.rowcount}
