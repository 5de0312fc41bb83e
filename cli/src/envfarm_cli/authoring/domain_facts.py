"""What a domain's world offers to its tasks: tools, rows, policy. No database is needed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from env_server.toolkit import Access, Tool
from env_server.world import load_world


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """Read from `<domain>/world/`."""

    tools: Mapping[str, Tool]
    policy: str
    rows: str
    """The SQL that makes schema and rows."""
    foreign: frozenset[str] = frozenset()
    """Tools of mounted servers, which all count as writes."""

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
