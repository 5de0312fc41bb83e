"""How a server's program is run: its environment, its limits, and the programs that set these."""

import shutil
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from envfarm.errors import ConfigError, ForeignServerError
from envfarm_common.binaries import CHILD_ENV

from env_server.server_file import FOLDER, ServerFile, ServerLimits
from env_server.server_place import MARK, Place

MEBI = 1 << 20


def environment_of(
    spec: ServerFile, world: Path, place: Place, variables: Mapping[str, str]
) -> dict[str, str]:
    """Everything that the process sees of the outside."""
    own = (world / FOLDER / spec.environment).absolute() if spec.environment else None
    programs = own / "bin" if own else Path(sys.executable).parent
    return {
        **CHILD_ENV,
        "LC_ALL": "C.UTF-8",
        "PATH": f"{programs}:{CHILD_ENV['PATH']}",
        "HOME": str(place.folder),
        "TMPDIR": str(place.folder),
        "USER": "envfarm",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"VIRTUAL_ENV": str(own)} if own else {}),
        **spec.variables,
        **variables,
        MARK: str(place.folder),
    }


def program_of(name: str, spec: ServerFile, world: Path, path: str) -> str:
    """The program on `path`, or below world/servers/; ForeignServerError when there is none."""
    named = spec.command[0]
    program = str(world / FOLDER / named) if "/" in named else shutil.which(named, path=path)
    if program is None or not Path(program).exists():
        raise ForeignServerError(
            f"server {name}: there is no program {named!r}",
            hint="give its path, or a virtual environment that has it",
        )
    return program


def folder_of(world: Path, place: Place) -> Path:
    """Where the process begins."""
    return world / FOLDER if (world / FOLDER).is_dir() else place.folder


def through(
    script: Path, program: str, spec: ServerFile, now: datetime, control: int = -1
) -> list[str]:
    """The command by way of warm_program.py; without a `control` it runs once and at once."""
    moment = now.isoformat() if spec.clock == "frozen" else "-"
    return [program, str(script), str(control), moment, *spec.command[1:]]


def kernel_limits(limits: ServerLimits, *, has_account: bool) -> dict[str, int]:
    """By the names of Python's module resource."""
    return {
        "RLIMIT_DATA": limits.memory_mb * MEBI,
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_FSIZE": limits.file_mb * MEBI,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CORE": 0,
        # Without an account of its own the count would be of all that our account runs.
        **({"RLIMIT_NPROC": limits.processes} if has_account else {}),
    }


def limited(argv: list[str], limits: Mapping[str, int]) -> list[str]:
    """`argv` under these limits and without new privileges."""
    found = {name: shutil.which(name, path=CHILD_ENV["PATH"]) for name in ("setpriv", "prlimit")}
    if not all(found.values()):
        raise ConfigError("setpriv or prlimit is missing", hint="install util-linux 2.33 or later")
    told = [f"--{name.removeprefix('RLIMIT_').lower()}={value}" for name, value in limits.items()]
    return [
        *(str(found["prlimit"]), *told, "--"),
        *(str(found["setpriv"]), "--no-new-privs", "--", *argv),
    ]
