"""Which rows of two runs are the same, when some of their values may differ a little.

Rows with equal text outside the tolerated values are candidates; of these, as many as possible are
paired so that every tolerated value is near enough (a maximum bipartite matching, found by
augmenting paths: H. W. Kuhn, 1955).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Comparable:
    """A row of one run."""

    text: str
    """Everything that must be equal; a tolerated value is a hole that names its tolerance."""
    values: tuple[Decimal, ...] = ()
    """The tolerated values, in the order of their holes."""
    tolerances: tuple[Decimal, ...] = ()
    shown: str = ""
    """The whole row, for people; equal to `text` when nothing is tolerated."""
    index: int = -1
    """Place among the changes of its run."""


def unmatched(
    expected: Sequence[Comparable], observed: Sequence[Comparable]
) -> tuple[list[Comparable], list[Comparable]]:
    """Rows of `expected` without a partner, and rows of `observed` without one."""
    missing: list[Comparable] = []
    extra: list[Comparable] = []
    wanted, found = _by_text(expected), _by_text(observed)
    for text in sorted(wanted.keys() | found.keys()):
        left, right = wanted.get(text, []), found.get(text, [])
        if not (left and right) or not left[0].tolerances:
            missing += left[len(right) :]
            extra += right[len(left) :]
            continue
        partners = _pair(left, right)
        missing += [row for place, row in enumerate(left) if place not in partners.values()]
        extra += [row for place, row in enumerate(right) if place not in partners]
    return missing, extra


def near(one: Comparable, other: Comparable) -> bool:
    """Whether each tolerated value is within its tolerance; the bound itself is within."""
    return all(
        abs(a - b) <= tolerance
        for a, b, tolerance in zip(one.values, other.values, one.tolerances, strict=True)
    )


def _by_text(rows: Sequence[Comparable]) -> dict[str, list[Comparable]]:
    groups: defaultdict[str, list[Comparable]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.values):
        groups[row.text].append(row)
    return groups


def _pair(left: Sequence[Comparable], right: Sequence[Comparable]) -> dict[int, int]:
    """Place in `right` → place in `left` of a largest set of pairs."""
    partners: dict[int, int] = {}
    for start in range(len(left)):
        # Breadth first, because a path may be as long as the group and Python's stack is not.
        came_from: dict[int, int] = {}
        queue = [start]
        for place in queue:
            free = _step(place, left, right, partners, came_from, queue)
            if free is not None:
                _augment(free, start, came_from, partners)
                break
    return partners


def _step(
    place: int,
    left: Sequence[Comparable],
    right: Sequence[Comparable],
    partners: dict[int, int],
    came_from: dict[int, int],
    queue: list[int],
) -> int | None:
    """Visit the neighbours of `place`; the first one that has no partner yet ends the search."""
    for candidate, row in enumerate(right):
        if candidate in came_from or not near(left[place], row):
            continue
        came_from[candidate] = place
        if candidate not in partners:
            return candidate
        queue.append(partners[candidate])
    return None


def _augment(free: int, start: int, came_from: dict[int, int], partners: dict[int, int]) -> None:
    current: int | None = free
    previous = {left: right for right, left in partners.items()}
    while current is not None:
        place = came_from[current]
        partners[current] = place
        current = None if place == start else previous[place]
