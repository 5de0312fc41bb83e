"""Reading the metrics pages of a running stack's processes."""

import contextlib
import time

import httpx

from envfarm_cli.state_dir import StackState
from envfarm_watch.scrape import Sample

JOBS = {
    "env-server": "env-server",
    "grader": "grader",
    "gateway": "rollout-gateway",
    "learner": "learner",
    "policy": "engine",
    "engine": "engine",
}
"""Our name of a process → the job under which Prometheus scrapes it. A vLLM behind the scripted
policy stands last and is the engine."""


def targets(state: StackState) -> dict[str, str]:
    """Job → base URL of the processes that have a metrics page."""
    urls = {
        process.name: process.http
        for process in (*state.guests, *state.processes)
        if process.http and process.exit_status is None
    }
    return {job: urls[name] for name, job in JOBS.items() if name in urls}


def missed(state: StackState) -> set[str]:
    """Jobs whose process died."""
    ends = {process.name: process.exit_status for process in state.processes}
    died = {JOBS[name] for name, end in ends.items() if name in JOBS and end not in (None, 0)}
    return died - targets(state).keys()


def scrape(client: httpx.Client, urls: dict[str, str]) -> tuple[Sample, list[str]]:
    """What the processes tell now, and the jobs that did not answer."""
    pages, silent = [], []
    at = time.monotonic()
    for job, url in urls.items():
        with contextlib.suppress(httpx.HTTPError):
            answer = client.get(f"{url}/metrics")
            if answer.status_code == 200:
                pages.append(answer.text)
                continue
        silent.append(job)
    return Sample.read(at, pages), silent
