"""The registry of evidence kinds: what a final state consists of, and how it is kept and read again.

    postgres   tables of a database: digests and net row changes
    files      a private folder: one row per file in a table of its own (`file_rows.py`)

Both are tables and changes to a check, so that `state`, `untouched` and `python` work on either.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from envfarm.errors import EvidenceError

from grader import file_rows
from grader.evidence import Change, Evidence, Table, verified

Conversation = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class EvidenceKind:
    """One part that a final state may have."""

    name: str
    table: str = ""
    """Its only table; empty for the kind of all others."""
    in_database: bool = False
    """Whether a database alone holds it, and `sql` checks can ask it."""


KINDS = {
    kind.name: kind
    for kind in (
        EvidenceKind("postgres", in_database=True),
        EvidenceKind("files", table=file_rows.TABLE),
    )
}


def kind_of(table: str) -> EvidenceKind:
    """The kind that a table belongs to."""
    named = [kind for kind in KINDS.values() if kind.table == table]
    return named[0] if named else KINDS["postgres"]


def in_database(tables: Iterable[str]) -> list[str]:
    """Of these tables, those that a database holds."""
    return [table for table in tables if kind_of(table).in_database]


def kinds_of(evidence: Evidence) -> list[str]:
    """The kinds that a final state consists of."""
    found = {kind_of(table).name for table in evidence.tables}
    return [name for name in KINDS if name in found]


def to_document(
    evidence: Evidence, final_reply: str, conversation: Conversation | None = None
) -> dict[str, Any]:
    """What is judged, and nothing of where it came from: equal ends have equal documents."""
    return {
        **({} if conversation is None else {"conversation": list(conversation)}),
        "version": 1,
        "kinds": kinds_of(evidence),
        "task_id": evidence.task_id,
        "task_hash": evidence.task_hash,
        "world_id": evidence.world_id,
        "world_hash": evidence.world_hash,
        "initial_state_hash": evidence.initial_state_hash,
        "final_state_hash": evidence.final_state_hash,
        "tables": {
            table.name: {
                "rows": table.rows,
                "hash": table.hash,
                "key_columns": list(table.key_columns),
                "columns": list(table.columns),
            }
            for table in evidence.tables.values()
        },
        "changes": [asdict(change) for change in evidence.changes],
        "leftovers": list(evidence.leftovers),
        "final_reply": final_reply,
    }


def from_document(
    document: Mapping[str, Any], episode_id: str
) -> tuple[Evidence, str, Conversation | None]:
    """Evidence, final reply and conversation; EvidenceError when the document is not one of ours."""
    try:
        unknown = [kind for kind in document["kinds"] if kind not in KINDS]
        if document["version"] != 1 or unknown:
            raise EvidenceError(f"kept evidence of a kind that is not known here: {unknown}")
        evidence = Evidence(
            episode_id=episode_id,
            task_id=document["task_id"],
            task_hash=document["task_hash"],
            world_id=document["world_id"],
            world_hash=document["world_hash"],
            initial_state_hash=document["initial_state_hash"],
            final_state_hash=document["final_state_hash"],
            tables={
                name: Table(
                    name=name,
                    rows=table["rows"],
                    hash=table["hash"],
                    key_columns=tuple(table["key_columns"]),
                    columns=tuple(table["columns"]),
                )
                for name, table in document["tables"].items()
            },
            changes=tuple(Change(**change) for change in document["changes"]),
            leftovers=tuple(document["leftovers"]),
        )
        return verified(evidence), document["final_reply"], document.get("conversation")
    except (KeyError, TypeError, AttributeError) as error:
        raise EvidenceError(f"the kept evidence is unreadable: {error!r}") from error
