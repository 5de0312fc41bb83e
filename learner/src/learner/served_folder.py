"""A folder that engines can load: config.json, model.safetensors, tokenizer files.

weights_hash is the SHA-256 over the safetensors files' hex digests, in name order, joined by
newlines. The same parameters give the same bytes and the same hash.
"""

import hashlib
import shutil
from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from learner.files import commit_folder, file_digest, fresh_folder, writing

COPIED = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
)


def write(final: Path, weights: dict[str, Tensor], origin: Path) -> str:
    """Write the folder in one step; what is not weights comes from `origin`. Returns the hash."""
    with writing(final):
        temporary = fresh_folder(final)
        save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
        (temporary / "model.safetensors").chmod(0o644)
        for name in COPIED:
            source = origin / name
            if source.exists():
                shutil.copyfile(source, temporary / name)
    digest = weights_hash(temporary)
    # An engine may be reading a folder of the same content: leave it in place.
    if final.exists() and weights_hash(final) == digest:
        shutil.rmtree(temporary)
    else:
        commit_folder(temporary, final)
    return digest


def weights_hash(folder: Path) -> str:
    """SHA-256 (hex) over the safetensors files' digests, in name order."""
    return _over(sorted(folder.glob("*.safetensors")))


def model_hash(folder: Path) -> str:
    """The same with config.json at the end: all that decides what the model computes."""
    return _over([*sorted(folder.glob("*.safetensors")), folder / "config.json"])


def _over(files: list[Path]) -> str:
    lines = [file_digest(path) for path in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
