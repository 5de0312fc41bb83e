"""Records on disk: whole or absent, found by id, request and content, and swept by a policy."""

import os
from pathlib import Path

import pytest
from envfarm.errors import UnknownVerdict
from hypothesis import given
from hypothesis import strategies as st

from grader.claims import Claims
from grader.evidence_kinds import from_document, kinds_of, to_document
from grader.record_store import RecordStore, _is_id
from grader.retention import Policy, sweep
from tests.support.shop_world import START, after, evidence

ID = "v-0123456789abcdef"
DAY = 86_400.0
PAID = after(notes=[*START["notes"], {"id": 8, "account": 1, "text": "paid"}])


def test_equal_evidence_has_one_address_and_one_file(tmp_path: Path):
    store = RecordStore(tmp_path)
    names = {store.put_evidence({"b": 1, "a": [2]}), store.put_evidence({"a": [2], "b": 1})}
    assert len(names) == 1
    assert store.evidence(names.pop()) == {"a": [2], "b": 1}
    assert len(list((tmp_path / "evidence").glob("*/*"))) == 1


@pytest.mark.parametrize("damage", [b"", b"junk", b"x\x9c"])
def test_a_torn_or_foreign_file_is_not_there(tmp_path: Path, damage: bytes):
    store = RecordStore(tmp_path)
    name = store.put_evidence({"a": 1})
    store.put_verdict(ID, {"fingerprint": "f"}, "r")
    for path in [*tmp_path.glob("evidence/*/*"), *tmp_path.glob("verdicts/*/*")]:
        path.write_bytes(damage)
    assert store.by_request("r") is None
    with pytest.raises(UnknownVerdict):
        store.verdict(ID)
    with pytest.raises(UnknownVerdict):
        store.evidence(name)


@given(st.text(max_size=200))
def test_no_id_of_a_caller_reaches_a_file_that_is_not_ours(text: str):
    if _is_id(text):
        assert "/" not in text and "." not in text and text.isascii()


def test_evidence_is_the_same_wherever_the_state_came_from():
    first = to_document(evidence(PAID), "Paid.")
    again, reply, said = from_document(first, "ep-9")
    assert said is None
    assert to_document(again, reply) == first
    assert "episode_id" not in first
    assert kinds_of(again) == ["postgres"]


def test_the_policy_removes_what_is_old_and_then_the_oldest(tmp_path: Path):
    store = RecordStore(tmp_path)
    names = [store.put_evidence({"n": n, "text": os.urandom(3000).hex()}) for n in range(4)]
    store.put_verdict(ID, {"fingerprint": "f"}, "r")
    now = 100 * DAY
    for age, name in zip((40, 3, 2, 1), names, strict=True):
        (path,) = tmp_path.glob(f"evidence/*/{name}.zz")
        os.utime(path, (now - age * DAY,) * 2)
    (verdict,) = tmp_path.glob("verdicts/*/*")
    os.utime(verdict, (now - 40 * DAY,) * 2)
    size = path.stat().st_blocks * 512
    swept = sweep(tmp_path, Policy(keep_days=30, keep_bytes=2 * size), now)
    left = {file.stem for file in tmp_path.glob("evidence/*/*")}
    assert left == set(names[2:])
    assert swept.kept_bytes == 2 * size
    # The link of the request whose verdict went, goes too.
    assert not list(tmp_path.glob("requests/*/*"))
    assert store.by_request("r") is None


def test_using_evidence_again_keeps_it_young(tmp_path: Path):
    store = RecordStore(tmp_path)
    store.put_evidence({"a": 1})
    (path,) = tmp_path.glob("evidence/*/*")
    os.utime(path, (0, 0))
    store.put_evidence({"a": 1})
    assert sweep(tmp_path, Policy(keep_days=1, keep_bytes=1 << 30)).removed == 0


def test_a_claim_keeps_another_process_out_until_it_is_released(tmp_path: Path):
    mine = Claims(tmp_path / "claims")
    assert mine.take("r")
    taken, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        other = Claims(tmp_path / "claims")
        os.write(theirs, bytes([other.take("r"), other.take("s")]))
        os._exit(0)
    os.waitpid(pid, 0)
    assert list(os.read(taken, 2)) == [0, 1]
    mine.release("r")
    mine.close()
