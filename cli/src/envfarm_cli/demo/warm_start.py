"""The demonstration's starting policy: model and tokenizer, recorded conversations, supervised steps."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from envfarm.v1 import gateway_service_pb2

from envfarm_cli import service_specs
from envfarm_cli.campaign.farm import farm_of
from envfarm_cli.campaign.files import read_json
from envfarm_cli.campaign.fitting import fit
from envfarm_cli.campaign.narration import Narration
from envfarm_cli.campaign.waves import read_rows, rows_path
from envfarm_cli.children import died
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.demonstrations import demonstration_plans, domain_text
from envfarm_cli.domain_files import read_yaml
from envfarm_cli.failure import Failure
from envfarm_cli.learner_config import write_sections
from envfarm_cli.renamed_copies import write_renamed_copies
from envfarm_cli.script_file import write_plans
from envfarm_cli.stack import Stack

PLAY_SECONDS = 900
SCRIPTED_RUN = "demonstrations"


def make_model(stack: Stack, folder: Path, recipe: DemoRecipe, domains: Path) -> dict[str, Any]:
    """A tokenizer of the domain's text and a Qwen3 model with seeded random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    plans = _plans(recipe, domains)
    text = folder / "corpus.txt"
    text.write_text(domain_text(domains, recipe.domain, plans))
    child = stack.children.start(
        "tiny-model",
        [
            *(sys.executable, "-m", "learner.tiny_model"),
            *("--out", folder, "--seed", str(recipe.seed), "--text", text),
            *("--vocabulary", str(recipe.first_model.vocabulary)),
            *("--copying-steps", str(recipe.first_model.copying_steps)),
        ],
        env=service_specs.base_env(stack.state),
        log=stack.state.log("tiny-model"),
    )
    if stack.children.wait_end(child):
        raise died(child, "while making the model")
    return {"folder": folder.name}


def play_demonstrations(
    stack: Stack, folder: Path, recipe: DemoRecipe, narration: Narration
) -> dict[str, Any]:
    """Record the plans through a gateway whose policy answers from a script, at once."""
    plans = _plans(recipe, stack.options.domains)
    records = folder / "demonstrations"
    stack.start_script(write_plans(folder / "plans.json", plans))
    stack.start_gateway(records)
    job_id = f"{recipe.run_id}.demonstrations"
    with farm_of(stack) as farm:
        assert stack.model
        farm.announce_constant(SCRIPTED_RUN, stack.model)
        farm.gateway.submit(
            gateway_service_pb2.SubmitJobRequest(
                job_id=job_id,
                run_id=SCRIPTED_RUN,
                task_ids=list(plans),
                groups_per_task=1,
                group_size=recipe.demonstrations.per_task,
                kind=gateway_service_pb2.JOB_KIND_PROBE,
                seed=recipe.seed,
            )
        )
        total = len(plans) * recipe.demonstrations.per_task
        with narration.meter("conversations", total) as meter:

            def tick(job: gateway_service_pb2.JobStatus) -> None:
                farm.check()
                meter.at(job.attempts)

            farm.gateway.wait_for_job(job_id, PLAY_SECONDS, tick)
    stack.end("gateway")
    stack.end("policy")
    rows = read_rows(rows_path(records, job_id))
    rewards = [row.reward for row in rows if row.reward is not None]
    if len(rewards) < total:
        raise Failure(
            f"{total - len(rewards)} of {total} demonstrations have no reward",
            hint=f"read {stack.state.log('gateway')}",
        )
    return {
        "conversations": len(rewards),
        "reward_mean": sum(rewards) / len(rewards),
        "job_id": job_id,
    }


def warm_start(
    stack: Stack, folder: Path, recipe: DemoRecipe, narration: Narration
) -> dict[str, Any]:
    """Supervised steps on the recorded conversations; the weights go to `folder`/sft/model."""
    run_dir, wanted, records = folder / "sft", recipe.warm_start, folder / "demonstrations"
    write_renamed_copies(
        records / "jobs",
        records / "renamed" / "records.bin",
        folder / "model" / "tokenizer.json",
        names=read_yaml(stack.options.domains / recipe.domain / "words.yaml")["names"],
        copies=recipe.demonstrations.copies,
        seed=recipe.seed,
    )
    config = write_sections(
        folder / "sft.toml",
        {
            # The engine sleeps meanwhile, so all cores are free.
            "": {"seed": recipe.seed, "threads": os.cpu_count() or 1},
            "run": {
                "dir": str(run_dir),
                "steps": wanted.steps,
                "checkpoint_every": max(1, wanted.steps // 4),
                "keep_checkpoints": 1,
                "report_every": 20,
            },
            "model": {
                "path": str(folder / "model"),
                "dtype": "float32",
                "zero_stage": 0,
                "offload": "none",
                "gradient_checkpointing": False,
                "offload_activations": False,
                "sequence_parallel": 1,
                "mlp_tiles": 1,
                "max_tokens": recipe.max_tokens,
            },
            "data": {
                "path": str(records),
                "rewards": "all",
                "weight": 1.0,
            },
            "batch": {**recipe.layout(), "conversations": wanted.batch},
            "optimizer": {
                "kind": "adamw",
                "lr": wanted.lr,
                "betas": [0.9, 0.99],
                "eps": 1e-8,
                "weight_decay": 0.01,
                "grad_norm": 1.0,
            },
            "schedule": {"kind": "linear", "warmup_steps": 40},
        },
    )
    with narration.meter("steps", wanted.steps) as meter:
        fit(
            stack.children,
            stack.state,
            config,
            folder / "sft.log",
            run_dir,
            meter,
            stack.fail_when_one_died,
        )
    # They can be made again, and no job of a gateway left them.
    shutil.rmtree(records / "renamed")
    return read_json(run_dir / "summary.json")


def _plans(recipe: DemoRecipe, domains: Path) -> dict[str, dict[str, Any]]:
    wanted = recipe.demonstrations
    return demonstration_plans(
        domains, recipe.domain, wanted.per_task, recipe.seed, wanted.right_share
    )
