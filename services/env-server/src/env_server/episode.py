"""An episode's life: OPENING → RUNNING → SEALED → CLOSED, or FAILED(reason). Pure: no I/O, no clock."""

from enum import Enum

from envfarm.errors import WrongState


class State(Enum):
    OPENING = "opening"
    RUNNING = "running"
    SEALED = "sealed"
    CLOSED = "closed"
    FAILED = "failed"


class End(Enum):
    """Why an episode is over."""

    CLOSED = "closed"
    LEASE_EXPIRED = "lease_expired"
    DATABASE = "database"
    BROKEN_WORLD = "broken_world"
    EVIDENCE = "evidence"
    SERVER = "server"
    """An MCP server that the world mounts ended or hung."""


_MOVES = {
    State.OPENING: {State.RUNNING, State.FAILED, State.CLOSED},
    State.RUNNING: {State.SEALED, State.CLOSED, State.FAILED},
    State.SEALED: {State.CLOSED, State.FAILED},
    State.CLOSED: set(),
    State.FAILED: set(),
}


class Episode:
    """The state and, once it is over, why."""

    def __init__(self, episode_id: str):
        self.episode_id = episode_id
        self.state = State.OPENING
        self.end: End | None = None
        self.reason = ""

    @property
    def is_over(self) -> bool:
        return self.state in (State.CLOSED, State.FAILED)

    def run(self) -> None:
        self._move(State.RUNNING)

    def seal(self) -> None:
        self._move(State.SEALED)

    def close(self) -> None:
        self._move(State.CLOSED)
        self.end, self.reason = End.CLOSED, "it was closed"

    def fail(self, end: End, reason: str) -> None:
        self._move(State.FAILED)
        self.end, self.reason = end, reason

    def require(self, state: State) -> None:
        """WrongState unless the episode is in `state`."""
        if self.state is not state:
            raise WrongState(
                f"episode {self.episode_id} is {self.state.value}, not {state.value}"
                + (f": {self.reason}" if self.reason else "")
            )

    def _move(self, to: State) -> None:
        if to not in _MOVES[self.state]:
            raise WrongState(
                f"episode {self.episode_id} cannot go from {self.state.value} to {to.value}"
            )
        self.state = to
