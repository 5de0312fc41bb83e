"""Whatever bytes a group is, it is read or refused: no input ends the learner."""

import random
from collections import Counter

import pytest
from envfarm.canonical import bytes_hash
from envfarm.errors import BadGroup

from learner.admission import Rules, admit
from learner.algorithm.presets import PRESETS
from learner.algorithm.recipe import Algorithm
from learner.batch import make_batch
from learner.decode import decode
from learner.micro_batch import split
from tests.support.groups import make_group, policy
from tests.support.learner_samples import SAMPLING

RULES = Rules(
    run_id="run",
    group_size=4,
    max_tokens=100,
    vocabulary=600,
    staleness=1,
    sampling_hash=SAMPLING.hash,
)
ALGORITHM = Algorithm.model_validate(PRESETS["reference"])
VERSIONS = {3: "h"}
TRIES = 1500


@pytest.fixture(scope="module")
def payload() -> bytes:
    group = make_group(
        "g",
        [1, 0, 0, 1],
        policy(3, "h"),
        lambda ids: [-1.0] * (len(ids) - 1),
        seed=1,
        shortest=6,
        longest=10,
    )
    return group.SerializeToString(deterministic=True)


def damaged(payload: bytes, source: random.Random) -> bytes:
    """One to three bytes changed, cut out or put in."""
    data = bytearray(payload)
    for _ in range(source.randint(1, 3)):
        at, kind = source.randrange(len(data)), source.random()
        if kind < 0.6:
            data[at] = source.choice([0, 127, 128, 255, source.randrange(256)])
        elif kind < 0.8:
            del data[at : at + source.randint(1, 8)]
        else:
            data[at:at] = source.randbytes(source.randint(1, 8))
    return bytes(data)


def test_an_undamaged_group_is_read(payload: bytes):
    assert admit(decode(payload, bytes_hash(payload), "g"), RULES, 3, VERSIONS) is None


@pytest.mark.parametrize(
    ("checksum", "name", "words"),
    [("0" * 64, "g", "do not match the entry's checksum"), (None, "other", "are of group 'g'")],
)
def test_other_bytes_than_the_entry_names_are_refused(payload, checksum, name, words):
    with pytest.raises(BadGroup, match=words):
        decode(payload, checksum or bytes_hash(payload), name)


def test_damage_that_a_checksum_does_not_show_is_refused_by_name_or_does_no_harm(payload: bytes):
    source, fates = random.Random(7), Counter()
    for _ in range(TRIES):
        data = damaged(payload, source)
        try:
            group = decode(data, bytes_hash(data), "g")
        except BadGroup:
            fates["unreadable"] += 1
            continue
        reason = admit(group, RULES, 3, VERSIONS)
        fates[reason or "admitted"] += 1
        if reason is None:
            batch = make_batch([group], ALGORITHM)
            split(batch.lines, tokens=64, packed=True, ranks=2)
    assert sum(fates.values()) == TRIES
    assert len(fates) >= 8, "the damage reached too little of the message"
