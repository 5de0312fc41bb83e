"""Whose token opens what: scopes and tasks by bearer token. Only hashes of tokens are held.

tokens:
  - name: team-a
    sha256: <hex of the token's SHA-256>
    scopes: [grade, read]
    tasks: [orders/*]
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from envfarm.errors import Unauthenticated, WrongScope
from envfarm_common import auth, strict_yaml
from pydantic import BaseModel, ConfigDict, Field

Scope = Literal["grade", "read", "regrade"]
ALL: tuple[Scope, ...] = ("grade", "read", "regrade")


class Grant(BaseModel):
    """What one token may do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=100)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    scopes: Annotated[list[Scope], Field(min_length=1)]
    tasks: Annotated[list[str], Field(min_length=1)] = ["*"]
    """Patterns of task ids, such as `orders/*`."""


class TokenFile(BaseModel):
    """The file of GRADER_TOKENS_FILE."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: list[Grant]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    grant: Grant

    def may_see(self, task_id: str) -> None:
        """WrongScope for a task that the token is not for."""
        if not any(fnmatchcase(task_id, pattern) for pattern in self.grant.tasks):
            raise WrongScope(f"the token of {self.grant.name} is not for the task {task_id}")


class Tokens:
    def __init__(self, grants: Sequence[Grant]):
        self._grants = tuple(grants)

    def caller(self, header: str | None, scope: Scope) -> Caller:
        """Who sent this `Authorization` header; Unauthenticated or WrongScope when it may not."""
        given = hash_of(auth.bearer(header))
        found = [grant for grant in self._grants if hmac.compare_digest(grant.sha256, given)]
        if not found:
            raise Unauthenticated("the bearer token is not known here")
        if scope not in found[0].scopes:
            raise WrongScope(
                f"the token of {found[0].name} has no scope `{scope}`",
                hint=f"it has {', '.join(found[0].scopes)}",
            )
        return Caller(found[0])


def load_tokens(client_token: str, file: Path | None) -> Tokens:
    """The operator's own token, which opens everything, and those of the file; ConfigError names
    file and line of a mistake."""
    grants = [Grant(name="operator", sha256=hash_of(client_token), scopes=list(ALL))]
    if file is not None:
        grants += strict_yaml.load(file, TokenFile).tokens
    return Tokens(grants)


def hash_of(token: str) -> str:
    """SHA-256 (hex), as it stands in the file."""
    return hashlib.sha256(token.encode()).hexdigest()
