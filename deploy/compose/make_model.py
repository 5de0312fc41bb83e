"""Makes the tiny policy from the domains' public text, unless the folder holds a model already."""

import sys
from pathlib import Path

MODEL = Path("/var/lib/envfarm/model")
DOMAINS = Path("/domains")
PARTS = ("world/policy.md", "world/tools.py", "world/seed.sql", "world/tasks/*.yaml", "user/*.yaml")


def main() -> int:
    if (MODEL / "config.json").exists() and (MODEL / "tokenizer.json").exists():
        print(f"model: {MODEL} is used as it is")
        return 0
    from learner import tiny_model  # torch takes seconds to import

    texts = [str(path) for part in PARTS for path in sorted(DOMAINS.glob(f"*/{part}"))]
    return tiny_model.main(["--out", str(MODEL), "--seed", "42", "--text", *texts])


if __name__ == "__main__":
    sys.exit(main())
