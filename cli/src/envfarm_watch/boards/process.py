"""The row that every service's board ends with: what its processes use."""

from envfarm_watch.panel import Panel, Query, Row


def process_row(job: str) -> Row:
    """CPU, memory and descriptors of the processes scraped as `job`."""
    where = f'{{job="{job}"}}'
    return Row(
        title="Processes",
        panels=(
            Panel(
                title="CPU",
                question="Cores in use by each process.",
                unit="cores",
                queries=(
                    Query(
                        f"rate(process_cpu_seconds_total{where}[$window])",
                        "{{instance}} {{worker}}",
                    ),
                ),
            ),
            Panel(
                title="Resident memory",
                question="Flat after warm-up; a slope that does not end is a leak.",
                unit="bytes",
                queries=(
                    Query(f"process_resident_memory_bytes{where}", "{{instance}} {{worker}}"),
                ),
            ),
            Panel(
                title="Open descriptors",
                question="Flat under steady load.",
                unit="files",
                queries=(Query(f"process_open_fds{where}", "{{instance}} {{worker}}"),),
            ),
        ),
    )
