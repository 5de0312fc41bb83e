"""The registry of evidence kinds: how each kind of final state is kept and read again.

    postgres   tables of a database: digests and net row changes
    files      a private folder: one row per file (path, bytes, sha256) in a table of its own

Both are tables and changes to a check, so that `state`, `untouched` and `python` work on either.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from envfarm.canonical import bytes_hash, canonical_json
from envfarm.errors import EvidenceError, InvalidArgument

from grader.evidence import Change, Evidence, Table, verified

FILES_TABLE = "episode_files"
"""The table in which the files of an episode appear; no world may have one of that name."""
FILE_COLUMNS = ("path", "bytes", "sha256")
KINDS = ("postgres", "files")


def file_rows(files: Mapping[str, bytes]) -> list[str]:
    """The rows of `FILES_TABLE`, in path order; InvalidArgument for a path that leaves the folder."""
    for path in files:
        parts = path.split("/")
        if not path or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise InvalidArgument(f"files: {path[:200]!r} is no relative path inside the folder")
    return [
        canonical_json({"path": path, "bytes": len(content), "sha256": bytes_hash(content)})
        for path, content in sorted(files.items())
    ]


def kinds_of(evidence: Evidence) -> list[str]:
    """The kinds that a final state consists of."""
    return [
        kind
        for kind in KINDS
        if any((n == FILES_TABLE) == (kind == "files") for n in evidence.tables)
    ]


def to_document(evidence: Evidence, final_reply: str) -> dict[str, Any]:
    """What is judged, and nothing of where it came from: equal ends have equal documents."""
    return {
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


def from_document(document: Mapping[str, Any], episode_id: str) -> tuple[Evidence, str]:
    """Evidence and final reply; EvidenceError when the document is not one of ours."""
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
        return verified(evidence), document["final_reply"]
    except (KeyError, TypeError, AttributeError) as error:
        raise EvidenceError(f"the kept evidence is unreadable: {error!r}") from error
