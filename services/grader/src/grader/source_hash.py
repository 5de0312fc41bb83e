"""The grader's identity: a hash of its own source, stated in every verdict."""

from functools import cache
from pathlib import Path

from envfarm.canonical import bytes_hash, content_hash


@cache
def grader_hash() -> str:
    """SHA-256 (hex) over the names and contents of this package's Python files."""
    root = Path(__file__).parent
    return content_hash(
        {str(p.relative_to(root)): bytes_hash(p.read_bytes()) for p in sorted(root.rglob("*.py"))}
    )
