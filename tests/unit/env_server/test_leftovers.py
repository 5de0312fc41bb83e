"""What a dead env-server leaves is removed; what only looks like it is not."""

import mmap
import os
import secrets
import subprocess
from pathlib import Path

from env_server.postgres import PREFIX, remove, sweep_segments

SHARED_MEMORY = Path("/dev/shm")


def test_a_segment_goes_only_when_no_process_has_it_mapped():
    path = SHARED_MEMORY / f"PostgreSQL.{secrets.randbelow(10**9) + 10**10}"
    path.write_bytes(bytes(4096))
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0):
            sweep_segments(os.geteuid())
            assert path.exists()
        sweep_segments(os.geteuid() + 1)
        assert path.exists()
        sweep_segments(os.geteuid())
        assert not path.exists()
    finally:
        path.unlink(missing_ok=True)


def folder_with_a_process(base: Path, boot: str) -> tuple[Path, subprocess.Popen[bytes]]:
    """A cluster folder whose postmaster.pid names a process that works in its data directory."""
    folder = base / f"{PREFIX}x"
    (folder / "data").mkdir(parents=True)
    process = subprocess.Popen(["sleep", "60"], cwd=folder / "data")
    (folder / "data" / "postmaster.pid").write_text(f"{process.pid}\n")
    (folder / "owner.lock").write_text(boot)
    return folder, process


def test_process_ids_from_another_boot_are_left_alone(tmp_path: Path):
    folder, process = folder_with_a_process(tmp_path, "another boot")
    remove(folder)
    assert not folder.exists()
    assert process.poll() is None
    process.kill()
    process.wait()


def test_a_process_of_this_boot_is_ended_with_its_folder(tmp_path: Path):
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    folder, process = folder_with_a_process(tmp_path, boot)
    remove(folder)
    assert not folder.exists()
    assert process.wait(10) != 0
