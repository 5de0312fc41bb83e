"""`python -m envfarm_cli` is `envfarm`."""

from envfarm_cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
