"""An env-server for one command: it reads the files as they are now and disturbs no running stack."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from envfarm_cli import service_specs
from envfarm_cli.children import ChildSet
from envfarm_cli.domain_files import linked_domains
from envfarm_cli.failure import ChildFailed
from envfarm_cli.output import Output
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.state_apart import state_apart
from envfarm_cli.state_dir import StateDir

START_SECONDS = 180


@dataclass(frozen=True, slots=True)
class ServerApart:
    """A running env-server."""

    children: ChildSet
    state: StateDir
    """A folder of its own, gone with the command."""
    domains: Path
    """The folder that it reads: all domains, or links to those that were chosen."""
    grpc: str
    """host:port of its infrastructure door."""


@contextmanager
def server_apart(
    parent: StateDir,
    purpose: str,
    domains: Path,
    out: Output,
    *,
    only: Sequence[str] = (),
    env_settings: dict[str, str] | None = None,
) -> Iterator[ServerApart]:
    """Serve `domains`, or `only` some of them; ChildFailed says what is wrong with their files."""
    domains = domains.absolute()
    with state_apart(parent, purpose) as apart, ChildSet() as children:
        seen = linked_domains(apart.path / "domains", domains, only) if only else domains
        try:
            spec = service_specs.env_server(
                apart, StackOptions(domains=seen, env_settings=env_settings or {})
            )
            with out.console.status("starting an env-server"):
                server = children.start(
                    spec.name,
                    spec.argv,
                    env=spec.env,
                    log=apart.log(spec.name),
                    ready_file=apart.ready(spec.name),
                )
                facts = children.wait_ready(server, START_SECONDS)
            yield ServerApart(children, apart, seen, facts["grpc"])
        except ChildFailed as error:
            # Its author knows the file by its own place.
            message = error.message.replace(str(seen), str(domains))
            raise ChildFailed(message, hint=_without_log(error.hint, apart)) from error


def _without_log(hint: str, apart: StateDir) -> str:
    # The log ends with the command.
    return "" if str(apart.path) in hint else hint
