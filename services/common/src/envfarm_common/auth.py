"""Bearer tokens and the door each opens. Comparison takes the same time for every wrong token."""

import hmac
from collections.abc import Mapping

from envfarm.errors import Unauthenticated, WrongScope


def bearer(header: str | None) -> str:
    """The token of an `Authorization: Bearer ...` header; Unauthenticated when there is none."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated(
            "no bearer token in the request", hint="send `Authorization: Bearer <token>`"
        )
    return token.strip()


def require(header: str | None, scope: str, tokens: Mapping[str, str]) -> None:
    """Let the request pass if its token is that of `scope`; `tokens` maps scope to token."""
    token = bearer(header).encode()
    matching = [
        name for name, known in tokens.items() if hmac.compare_digest(token, known.encode())
    ]
    if not matching:
        raise Unauthenticated("the bearer token is not known here")
    if scope not in matching:
        raise WrongScope(f"this call needs the {scope} token")
