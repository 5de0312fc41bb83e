"""`envfarm demo --scripted`: the whole chain once on real parts, from a task to new weights in the engine."""

import time
from datetime import UTC, datetime
from pathlib import Path

from envfarm.v1 import gateway_service_pb2, group_pb2

from envfarm_cli import interrupts, records, state_dir
from envfarm_cli.children import Child, died
from envfarm_cli.commands_tasks import summary as proof_summary
from envfarm_cli.demo.scripted_report import Demo
from envfarm_cli.domain_files import find_tasks
from envfarm_cli.episode_view import render
from envfarm_cli.failure import BadInput, Failure
from envfarm_cli.gateway_client import GatewayClient
from envfarm_cli.output import FAILED, OK, Output, plain
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StateDir

DOMAIN = "orders"
TASKS = ("orders/refund-damaged", "orders/cancel-placed", "orders/address-change")
"""Taken in turn, one group each update."""
GROUP_SIZE = 8
ANNOUNCE_SECONDS = 300
GROUP_SECONDS = 600
TRAIN_SECONDS = 600


def scripted_demo(
    out: Output, state: StateDir, *, domains: Path, updates: int, recipe: Path, runs: Path
) -> int:
    """Run the chain once; the exit code. It can be run again at once: every run has an id."""
    find_tasks(domains, DOMAIN)
    if not recipe.is_file():
        raise BadInput(
            f"there is no learner's configuration at {recipe}",
            hint="run envfarm in its repository, or give --recipe",
        )
    run_id = f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = (runs / run_id).absolute()
    options = StackOptions(
        domains=domains.absolute(), engine="scripted-vllm", gateway_state=folder / "gateway"
    )
    state.make()
    state.lock()
    state.sweep()
    folder.mkdir(parents=True)
    report = Demo(run_id, folder, updates, out)
    try:
        with Stack(state, options, lambda line: out.say(f"  [dim]{plain(line)}[/dim]")) as stack:
            _run(stack, report, recipe.absolute())
    finally:
        with interrupts.final():
            state.forget()
    return _conclude(report, runs, out)


def _run(stack: Stack, report: Demo, recipe: Path) -> None:
    report.stage("the tiny model", "0.9 M parameters, made from a config; kept for the next run")
    with report.working("making it"):
        report.note("model", str(stack.make_model()))
    report.stage("the stack", "real parts, each a process of its own; vLLM loads in the background")
    stack.start_engine()
    stack.start_valkey()
    stack.start_env_server()
    stack.start_grader()
    report.stage("proofs", "golden passes, doing nothing fails, every mutant is caught")
    _prove(stack, report)
    with report.working("vLLM is loading; half a minute or more"):
        stack.wait_for_engine()
    stack.start_policy()
    stack.start_gateway()
    report.stage("attempts", f"{GROUP_SIZE} scripted attempts a group, scored by vLLM, graded")
    learner = stack.start_learner(recipe, report.learner_overrides(GROUP_SIZE))
    token = stack.state.secrets()["gateway_infra"]
    with GatewayClient(stack.address("gateway", "grpc"), token) as gateway:
        with report.working("the learner is loading and announces its weights as version 0"):
            first = gateway.wait_for_version(
                report.run_id, 0, ANNOUNCE_SECONDS, stack.fail_when_one_died
            )
        report.out.say(f"  policy version 0 is in service, weights {first[:12]}…")
        with report.working("the attempts run"):
            _play_groups(stack, report, gateway)
        report.stage("training", "admit, advantage, loss, step, checkpoint, acknowledge, publish")
        with report.working("the learner steps"):
            _wait_for_learner(stack, learner)
        last = gateway.status().in_service
    report.training(first, last)
    report.stage("one attempt", "the conversation, what it did to the database, and its verdict")
    _show_attempt(report)
    report.stage("summary", "every group was published once, consumed once and trained once")
    report.ledger(stack.redis_url)


def _prove(stack: Stack, report: Demo) -> None:
    with report.working("proving"):
        proofs = stack.prove(DOMAIN, lambda line: report.out.say(f"  [dim]{plain(line)}[/dim]"))
    report.out.say(
        f"  {proofs.passed} of {proofs.tasks} tasks proved, "
        f"{proofs.mutants_killed} of {proofs.mutants} mutants caught"
    )
    report.note("proofs", proof_summary(proofs))
    report.check("every task is proved", not proofs.failures and proofs.tasks > 0)


def _play_groups(stack: Stack, report: Demo, gateway: GatewayClient) -> None:
    for number in range(report.updates):
        job_id = f"{report.run_id}-{number}"
        gateway.submit(
            gateway_service_pb2.SubmitJobRequest(
                job_id=job_id,
                run_id=report.run_id,
                task_ids=[TASKS[number % len(TASKS)]],
                groups_per_task=1,
                group_size=GROUP_SIZE,
                publish=True,
            )
        )

        def tick(job: gateway_service_pb2.JobStatus) -> None:
            stack.fail_when_one_died()

        job = gateway.wait_for_job(job_id, GROUP_SECONDS, tick)
        ended = list(records.outcomes(report.gateway_state, job_id))
        rewards = [reward for outcome in ended for reward in outcome.rewards]
        shown = " ".join(f"{reward:g}" for reward in rewards)
        report.out.say(f"  {plain(TASKS[number % len(TASKS)])}: rewards {shown}")
        if job.groups_published != 1:
            reasons = [group_pb2.CancelReason.Name(o.cancelled) for o in ended if not o.published]
            raise Failure(
                f"job {job_id} published {job.groups_published} groups instead of one: {reasons}",
                hint="`envfarm episode show ID --records` shows its attempts",
            )


def _wait_for_learner(stack: Stack, learner: Child) -> None:
    deadline = time.monotonic() + TRAIN_SECONDS
    while learner.exit_status is None:
        stack.fail_when_one_died()
        if time.monotonic() > deadline:
            raise Failure(
                f"the learner was not done after {TRAIN_SECONDS} s", hint=f"read {learner.log}"
            )
        time.sleep(0.1)
    if learner.exit_status:
        raise died(learner, "while training")


def _show_attempt(report: Demo) -> None:
    found = records.attempts(report.gateway_state)
    best = next((attempt for attempt in found if attempt["reward"] == 1), None)
    report.check("an attempt earned reward 1", best is not None)
    if best is not None:
        report.note("shown_attempt", best["rollout_id"])
        report.out.show(render(best))


def _conclude(report: Demo, runs: Path, out: Output) -> int:
    summary = report.summary()
    for path in (report.folder / "summary.json", runs / "summary.json"):
        state_dir.write_atomically(path, summary)
    for name, true in report.checks.items():
        out.say(f"  {'[green]✓[/green]' if true else '[red]✗[/red]'} {plain(name)}")
    out.say(
        f"  {summary['seconds']:.0f} s in all. Look next at {plain(runs / 'summary.json')}, "
        f"{plain(report.folder)}, and\n  envfarm episode show "
        f"{plain(report.notes.get('shown_attempt', 'ID'))} --records {plain(report.gateway_state)}"
    )
    out.result(summary)
    return OK if summary["ok"] else FAILED
