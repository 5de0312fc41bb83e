"""A slot: one clone of a template, the role that works in it, and what the hand-out looked like."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection

from env_server.journal_evidence import Summary
from env_server.template import Template


@dataclass(slots=True, eq=False)
class Slot:
    """A clone with a role of its own and an open connection under that role."""

    name: str
    """Of the database and of its role."""
    template: Template
    connection: AsyncConnection[Any]
    dsn: str = ""
    """Opens this database under its role; only where servers of the world want one."""
    role: tuple[Any, ...] = ()
    """The role's own facts when it was made (`baseline.read_role`)."""
    before: Summary | None = None
    """Journal and counters at the hand-out."""
    sealed: Summary | None = None
    """The same when the evidence was taken, after which the agent is silent."""
    reuses: int = 0
    """Episodes that were undone in it."""
    keeper: AsyncConnection[Any] | None = None
    """A superuser's connection into this database, while one is open (`keepers.py`)."""
    keeping: asyncio.Lock = field(default_factory=asyncio.Lock)
