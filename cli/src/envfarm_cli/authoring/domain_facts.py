"""What a domain's world offers to its tasks: tools, rows, policy. No database is needed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from env_server.toolkit import Access, Tool
from env_server.world import load_world

ID = re.compile(r"\b([A-Za-z]{1,6}-?)\d+\b")


# Without slots, because cached properties need a dictionary.
@dataclass(frozen=True)
class DomainFacts:
    """Read from `<domain>/world/`."""

    tools: Mapping[str, Tool]
    policy: str
    rows: str
    """The SQL that makes schema and rows."""
    foreign: frozenset[str] = frozenset()
    """Tools of mounted servers, which all count as writes."""

    @cached_property
    def flat(self) -> str:
        """Policy and rows in small letters, each gap one space."""
        return " ".join(f"{self.policy} {self.rows}".split()).lower()

    @cached_property
    def id_prefixes(self) -> tuple[str, ...]:
        """What stands before the number in the ids of the rows."""
        return tuple({match[1] for match in ID.finditer(self.rows)})

    @property
    def writing(self) -> set[str]:
        own = {tool.name for tool in self.tools.values() if tool.access is Access.WRITE}
        return own | self.foreign


def facts_of(domains: Path, names: Iterable[str]) -> dict[str, DomainFacts]:
    """Facts by domain, those without a world.yaml left out; ConfigError or BrokenWorld names the
    file at fault."""
    found = {}
    for name in sorted(set(names)):
        folder = domains / name / "world"
        if (folder / "world.yaml").exists():
            world = load_world(folder)
            rows = world.schema_file.read_text() + world.seed_file.read_text()
            found[name] = DomainFacts(world.tools, world.policy, rows, frozenset(world.foreign))
    return found
