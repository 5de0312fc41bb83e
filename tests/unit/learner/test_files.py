"""Writes that the disk refuses: one kind of error, with the place, whichever library was writing."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from learner.files import writing

WRITERS = {
    "torch": "import torch; torch.save({'a': torch.zeros(10**6)}, place / 'x')",
    "safetensors": (
        "import torch; from safetensors.torch import save_file; "
        "save_file({'a': torch.zeros(10**6)}, place / 'x')"
    ),
    "python": "(place / 'x').write_bytes(bytes(10**6 * 4))",
}
SCRIPT = """
import errno, resource, sys
from pathlib import Path
from learner.files import writing
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
place = Path(sys.argv[1])
try:
    with writing(place):
        {write}
except OSError as error:
    print(errno.errorcode[error.errno], error.filename)
"""


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_s_refusal_is_an_oserror_with_its_place(writer: str, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(write=WRITERS[writer]), tmp_path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    code, place = done.stdout.split()
    assert code in ("EFBIG", "ENOSPC"), done.stderr
    assert Path(place) == tmp_path


def test_other_errors_pass_through(tmp_path: Path):
    with pytest.raises(RuntimeError, match="shapes"), writing(tmp_path):
        raise RuntimeError("shapes do not fit")
    with pytest.raises(FileNotFoundError) as caught, writing(tmp_path):
        (tmp_path / "none").read_bytes()
    assert caught.value.filename == str(tmp_path / "none")
    assert caught.value.errno == errno.ENOENT
