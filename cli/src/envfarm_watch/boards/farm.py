"""The environment workers: room, opens, refusals, leaks."""

from envfarm_watch.expressions import quantile, rate, total
from envfarm_watch.panel import Board, Panel, Query, Row

ROOM = Row(
    title="Room",
    panels=(
        Panel(
            title="Live episodes",
            question="Open or sealed episodes by world; each holds a database.",
            unit="episodes",
            kind="stacked",
            queries=(Query(total("episodes_live", "world"), "{{world}}"),),
        ),
        Panel(
            title="Ready slots",
            question="Clones that wait to be handed out, and opens that wait for a clone: the pool"
            " is empty, or holds used slots only, and the job wants untouched ones.",
            unit="slots",
            queries=(
                Query(total("slots_ready", "world"), "{{world}}"),
                Query(total("opens_waiting", "world"), "{{world}}, waited for"),
            ),
        ),
        Panel(
            title="Refused opens, by reason",
            question="Typed refusals with a retry hint; steady refusals ask for more env-servers.",
            unit="requests/s",
            kind="stacked",
            queries=(Query(rate("open_refusals_total", "reason"), "{{reason}}"),),
        ),
    ),
)

LIFE = Row(
    title="Opens and ends",
    panels=(
        Panel(
            title="Time to open, by source of the slot",
            question="Ready and reused slots take milliseconds; cold ones wait for a clone.",
            unit="seconds",
            queries=(
                Query(quantile(0.5, "open_seconds", "source"), "{{source}} p50"),
                Query(quantile(0.99, "open_seconds", "source"), "{{source}} p99"),
            ),
        ),
        Panel(
            title="Episodes ended, by end",
            question="Closed is the good end. Expired leases mean that whoever opened them went"
            " away; failures are ours.",
            unit="episodes/s",
            kind="stacked",
            queries=(Query(rate("episodes_ended_total", "end"), "{{end}}"),),
        ),
        Panel(
            title="Leaked databases",
            question="Databases without an owner that a sweep found and dropped since the process"
            " started. More than none is worth a look; growth is an alert.",
            unit="databases",
            queries=(Query(total("slots_leaked_total"), "leaked"),),
        ),
    ),
)

SLOTS = Row(
    title="Slots and evidence",
    panels=(
        Panel(
            title="Time to clone",
            question="Time to clone a template, in the background.",
            unit="seconds",
            width=6,
            queries=(
                Query(quantile(0.5, "clone_seconds"), "p50"),
                Query(quantile(0.99, "clone_seconds"), "p99"),
            ),
        ),
        Panel(
            title="Slots given back",
            question="Reused after a verified undo, or dropped: for doubt, for wear, or because the"
            " job asked for fresh ones.",
            unit="episodes/s",
            width=6,
            kind="stacked",
            queries=(Query(rate("slot_returns_total", "outcome"), "{{outcome}}"),),
        ),
        Panel(
            title="Evidence, by source",
            question="From the trusted row journal, or from whole tables when any counter spoke"
            " against it.",
            unit="episodes/s",
            width=6,
            kind="stacked",
            queries=(Query(rate("evidence_total", "source"), "{{source}}"),),
        ),
        Panel(
            title="Undo and verify",
            question="Time to bring a slot back to its template's state and to prove it.",
            unit="seconds",
            width=6,
            queries=(
                Query(quantile(0.5, "reset_seconds"), "p50"),
                Query(quantile(0.99, "reset_seconds"), "p99"),
            ),
        ),
        Panel(
            title="Postgres: connections",
            question="Client connections of the Postgres under the episodes, by state. Each slot"
            " holds one; growth while no episode runs is a leak.",
            unit="connections",
            width=6,
            kind="stacked",
            queries=(Query(total("postgres_connections", "state"), "{{state}}"),),
        ),
        Panel(
            title="Postgres: databases",
            question="All of them: templates, slots, and those on their way out. It follows live"
            " episodes and ready slots.",
            unit="databases",
            width=6,
            queries=(Query(total("postgres_databases"), "databases"),),
        ),
        Panel(
            title="Processes that answer",
            question="Scrape targets by service that answered the last scrape.",
            unit="processes",
            width=6,
            queries=(Query("sum by (job) (up)", "{{job}}"),),
        ),
        Panel(
            title="Resident memory, largest of each service",
            question="A slope that does not end is a leak.",
            unit="bytes",
            width=6,
            queries=(Query("max by (job) (process_resident_memory_bytes)", "{{job}}"),),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-farm",
    title="envfarm · farm",
    question="Is there room for the next episode, and does every one end clean?",
    rows=(ROOM, LIFE, SLOTS),
)
