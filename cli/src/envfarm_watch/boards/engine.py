"""The engines: what they run, what queues in them, how full they are. Metrics are vLLM's own."""

from envfarm_watch.boards.process import process_row
from envfarm_watch.panel import Board, Panel, Query, Row

REQUESTS = Row(
    title="Requests",
    panels=(
        Panel(
            title="Running and waiting",
            question="Requests inside each engine. None running while attempts run means that the"
            " attempts wait for something else.",
            unit="requests",
            queries=(
                Query("vllm:num_requests_running", "{{instance}} running"),
                Query("vllm:num_requests_waiting", "{{instance}} waiting"),
            ),
        ),
        Panel(
            title="Cache in use",
            question="Share of the key-value cache. Past nine tenths the gateway seats fewer"
            " attempts.",
            unit="share",
            queries=(Query("vllm:kv_cache_usage_perc", "{{instance}}"),),
        ),
        Panel(
            title="Tokens a second",
            question="Read and written by the engines, for whoever asked.",
            unit="tokens/s",
            queries=(
                Query("sum(rate(vllm:prompt_tokens_total[$window]))", "read"),
                Query("sum(rate(vllm:generation_tokens_total[$window]))", "written"),
            ),
        ),
    ),
)

BOARD = Board(
    uid="envfarm-engine",
    title="envfarm · engine",
    question="Are the engines busy, full, or idle?",
    rows=(REQUESTS, process_row("engine")),
)
