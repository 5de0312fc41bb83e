"""Before a training run starts: is everything there that it will need in hours or days?"""

import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
from envfarm.v1 import env_service_pb2, env_service_pb2_grpc

from envfarm_cli import doctor
from envfarm_cli.campaign.farm import Farm
from envfarm_cli.campaign.run_recipe import RunRecipe
from envfarm_cli.campaign.served import Served
from envfarm_cli.commands_parity import job_differences, recorded_jobs
from envfarm_cli.doctor import BAD, GOOD, WARNING, Finding
from envfarm_cli.failure import Failure
from envfarm_cli.gateway_client import CALL_SECONDS
from envfarm_cli.learner_config import sampling_hash
from rollout_gateway.parity import Difference

PARITY_JOBS, PARITY_ATTEMPTS = 3, 64
"""The latest jobs, and attempts of each, that are rendered again."""
CHECKPOINT_FACTOR = 4
"""A checkpoint's bytes over the model's: weights, two moments, and room for one in the making."""
GIB = 1 << 30


def preflight(
    recipe: RunRecipe, farm: Farm, folder: Path, tasks: list[str], model: Path
) -> list[Finding]:
    """All findings; Failure that names those that are bad."""
    served = farm.tasks()
    checks: list[Callable[[], Finding]] = [
        doctor.python,
        doctor.memory,
        lambda: _proved(farm, served, tasks),
        lambda: _capacity(farm, recipe),
        lambda: _sampling(farm, recipe),
        lambda: _parity(farm),
        lambda: _disk(folder, model, recipe),
    ]
    findings = [_tasks(served, tasks)]
    if findings[0].state != BAD:
        findings += [check() for check in checks]
    bad = [finding for finding in findings if finding.state == BAD]
    if bad:
        raise Failure(
            "; ".join(f"{finding.name}: {finding.found}" for finding in bad),
            hint="; ".join(finding.fix for finding in bad),
        )
    return findings


def plain(findings: list[Finding]) -> list[dict[str, Any]]:
    return [
        {"name": finding.name, "state": finding.state, "found": finding.found}
        for finding in findings
    ]


def _tasks(served: Served, tasks: list[str]) -> Finding:
    missing = [task for task in tasks if task not in served]
    if missing:
        return Finding(
            "tasks", BAD, f"{len(missing)} are not served, such as {missing[0]}", "select anew"
        )
    return Finding("tasks", GOOD, f"{len(tasks)} to train on")


def _proved(farm: Farm, served: Served, tasks: list[str]) -> Finding:
    golden = farm.state.path / "golden"
    if not golden.is_dir():
        return Finding("proofs", WARNING, "not on this machine", "the grader answers for them")
    known = {path.name.rsplit(".", 2)[0] for path in golden.glob("*.json")}
    unproved = [
        task
        for task in tasks
        if f"{task.replace('/', '.')}.{served[task].ref.task_hash[:16]}" not in known
    ]
    if unproved:
        return Finding(
            "proofs",
            BAD,
            f"{len(unproved)} tasks are not proved as they are served, such as {unproved[0]}",
            f"`envfarm tasks validate --task {unproved[0]}`",
        )
    return Finding("proofs", GOOD, f"{len(tasks)} tasks proved")


def _capacity(farm: Farm, recipe: RunRecipe) -> Finding:
    metadata = [("authorization", f"Bearer {farm.state.secrets()['env_infra']}")]
    with grpc.insecure_channel(farm.env_server) as channel:
        found = env_service_pb2_grpc.EnvServiceStub(channel).GetCapacity(
            env_service_pb2.GetCapacityRequest(), metadata=metadata, timeout=CALL_SECONDS
        )
    text = f"{found.live_episodes} of {found.max_episodes} episodes in use"
    if found.max_episodes - found.live_episodes < recipe.train.group_size:
        return Finding("capacity", BAD, text, "wait for other jobs, or start more env-servers")
    return Finding("capacity", GOOD, text)


def _sampling(farm: Farm, recipe: RunRecipe) -> Finding:
    """The learner takes no group that was sampled in another way than its recipe says."""
    told = farm.gateway.status().sampling_hash
    if told != sampling_hash(Path(recipe.learner), recipe.overrides):
        return Finding(
            "sampling",
            BAD,
            f"the gateway samples otherwise than [sampling] of {recipe.learner}",
            "start it with GATEWAY_TEMPERATURE, GATEWAY_TOP_K and GATEWAY_TOP_P as there, or "
            "change them there",
        )
    return Finding("sampling", GOOD, "gateway and recipe agree")


def _parity(farm: Farm) -> Finding:
    """Of what this gateway recorded last: the same renderer and parser must give the same again."""
    jobs = sorted(recorded_jobs(farm.records / "jobs"), key=lambda job: job.stat().st_mtime)
    checked, found = 0, list[Difference]()
    for job in jobs[-PARITY_JOBS:]:
        for differences in islice(job_differences(job, None, {}), PARITY_ATTEMPTS):
            checked += 1
            found += differences
    if found:
        first = found[0]
        return Finding(
            "parity",
            BAD,
            f"{len(found)} differences in {checked} attempts, such as {first.rollout_id} turn "
            f"{first.turn}: {first.what}",
            f"`envfarm parity --runs {farm.records}`",
        )
    return Finding("parity", GOOD, f"{checked} recorded attempts rendered and read again")


def _disk(folder: Path, model: Path, recipe: RunRecipe) -> Finding:
    weights = sum(path.stat().st_size for path in model.glob("*.safetensors"))
    wanted = weights * CHECKPOINT_FACTOR * 4 + GIB // 2
    free = shutil.disk_usage(folder).free
    text = f"{free / GIB:.1f} GiB free, {wanted / GIB:.1f} wanted"
    if free < wanted:
        return Finding("disk", BAD, text, f"free some room on the disk of {folder}")
    return Finding("disk", GOOD, text)
