"""The metric registry as a page for people. `python -m envfarm_watch.reference FILE [--check]`."""

import argparse
import sys
from pathlib import Path

from envfarm.metrics import METRICS

from envfarm_watch.boards import BOARDS

HEAD = """\
# Metrics

Every instrument of every envfarm process, generated from `proto/src/envfarm/metrics.py` by `make
dashboards`. A service cannot make an instrument that does not stand here. Labels have few
values; ids are never labels.

Workers behind one command (`--workers N`) tell as one, whichever is scraped: counters and histograms
add up and outlive a worker, gauges are the sum over the workers that live, and `process_*` stand
apart by a label `worker`. Of separate processes, dashboards sum or take the highest.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for owner in dict.fromkeys(metric.owner for metric in METRICS):
        parts.append(f"\n## {owner}\n\n| metric | kind | unit | labels | meaning | shown on |\n")
        parts.append("|---|---|---|---|---|---|\n")
        for metric in METRICS:
            if metric.owner == owner:
                cells = (
                    f"`{metric.name}`",
                    metric.kind,
                    metric.unit,
                    ", ".join(metric.labels),
                    metric.meaning.replace("|", "\\|"),
                    ", ".join(shown_on(metric.name)),
                )
                parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def shown_on(metric: str) -> list[str]:
    """Names of the boards that ask for a metric."""
    return [
        board.uid.removeprefix("envfarm-")
        for board in BOARDS
        if any(metric in query.expression for panel in board.panels for query in panel.queries)
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m envfarm_watch.reference", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    options = parser.parse_args(arguments)
    text = page()
    if options.check:
        same = options.file.is_file() and options.file.read_text() == text
        if not same:
            print(f"{options.file} differs from the registry: make dashboards", file=sys.stderr)
        return 0 if same else 1
    options.file.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
