"""A store key comes from outside: whatever it is, it finds bytes or is refused as a bad group."""

from pathlib import Path

import pytest
import redis
from envfarm.errors import BadGroup, StreamError

from learner.store import FolderStore, RedisStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    (tmp_path / "store").mkdir()
    (tmp_path / "secret").write_bytes(b"outside")
    (tmp_path / "store" / "g1").write_bytes(b"inside")
    return FolderStore(tmp_path / "store")


def test_a_key_finds_its_bytes(store: FolderStore):
    assert store.fetch("g1") == b"inside"


@pytest.mark.parametrize(
    "key", ["", ".", "..", "../secret", "/etc/hostname", "absent", "a\0b", "x" * 5000, "\udcff"]
)
def test_any_other_key_is_a_bad_group(store: FolderStore, key: str):
    with pytest.raises(BadGroup):
        store.fetch(key)


class Redis:
    """Answers every read with one error."""

    def __init__(self, words: str):
        self.words = words

    def get(self, key: str):
        raise redis.ResponseError(self.words)


def test_a_key_of_another_kind_is_a_bad_group_and_a_redis_in_trouble_is_not():
    wrong = Redis("WRONGTYPE Operation against a key holding the wrong kind of value")
    with pytest.raises(BadGroup, match="the key k holds no bytes"):
        RedisStore(wrong).fetch("k")  # pyright: ignore[reportArgumentType]
    with pytest.raises(StreamError) as caught:
        RedisStore(Redis("NOPERM no permission")).fetch("k")  # pyright: ignore[reportArgumentType]
    assert not isinstance(caught.value, BadGroup)
