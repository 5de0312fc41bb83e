"""records.bin, read by others than the gateway."""

from pathlib import Path

import pytest
from envfarm.errors import ConfigError
from envfarm.record_frames import read_rollouts, record_files

from tests.support.recorded import HEAD, rollouts, write_records


def test_rollouts_come_back_in_order_and_other_frames_are_passed_over(tmp_path: Path):
    recorded = rollouts([1, 0, 1])
    path = write_records(tmp_path, recorded)
    assert list(read_rollouts(path)) == recorded


@pytest.mark.parametrize("torn", [b"\x01", HEAD.pack(1, 50), HEAD.pack(1, 50) + b"half"])
def test_half_a_frame_at_the_end_is_not_there_yet(tmp_path: Path, torn: bytes):
    path = write_records(tmp_path, rollouts([1, 0]), torn=torn)
    assert len(list(read_rollouts(path))) == 2


def test_damage_is_named_with_its_byte(tmp_path: Path):
    path = write_records(tmp_path, [], torn=HEAD.pack(1, 3) + b"\xff\xff\xff")
    with pytest.raises(ConfigError, match=r"records\.bin: damaged at byte 0"):
        list(read_rollouts(path))
    path = write_records(tmp_path, [], torn=b"text, not frames")
    with pytest.raises(ConfigError, match="no frame begins at byte 0"):
        list(read_rollouts(path))


def test_files_are_found_below_a_folder_and_absence_is_an_error(tmp_path: Path):
    one = write_records(tmp_path / "jobs/b", [])
    two = write_records(tmp_path / "jobs/a", [])
    assert record_files(tmp_path) == [two, one]
    assert record_files(one) == [one]
    for absent in (tmp_path / "none", tmp_path / "jobs/b/records.txt"):
        with pytest.raises(ConfigError, match=r"no records\.bin in it or below"):
            record_files(absent)
    (tmp_path / "folder/records.bin").mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot read"):
        list(read_rollouts(tmp_path / "folder/records.bin"))
