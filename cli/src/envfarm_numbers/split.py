"""Training and validation parts: by seed, the same share in every stratum, copies kept together."""

from collections.abc import Mapping, Sequence
from hashlib import sha256


def stratified_split(
    families: Sequence[Sequence[str]], strata: Mapping[str, str], share: float, seed: int
) -> tuple[list[str], list[str]]:
    """(training ids, validation ids), each in id order.

    A family (near duplicates) goes to one side whole and belongs to the stratum of its first id.
    Within a stratum the order is by SHA-256 of seed and id; over the strata the share is carried on,
    so each stratum and the whole are within one family of it. Where there are two families and a
    share, neither side is empty. ValueError unless 0 ≤ share < 1.
    """
    if not 0 <= share < 1:
        raise ValueError("the share of validation is at least 0 and below 1")
    ordered = sorted(
        families, key=lambda ids: (strata[ids[0]], sha256(f"{seed}\0{ids[0]}".encode()).digest())
    )
    validation: list[str] = []
    seen = 0
    for ids in ordered:
        seen += len(ids)
        if share and seen * share - len(validation) >= len(ids) / 2:
            validation += ids
    if share and len(ordered) > 1:
        if not validation:
            validation = list(min(ordered, key=len))
        elif len(validation) == seen:
            validation = [task for ids in ordered[1:] for task in ids]
    chosen = set(validation)
    return sorted(task for ids in ordered for task in ids if task not in chosen), sorted(chosen)
