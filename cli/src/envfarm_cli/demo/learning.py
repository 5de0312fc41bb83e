"""The learning demonstration: from nothing to a policy that got better, as one resumable campaign."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from envfarm.v1 import policy_pb2

from envfarm_cli.campaign import served
from envfarm_cli.campaign.curves import curves, read_steps
from envfarm_cli.campaign.evaluation import Plan, evaluate
from envfarm_cli.campaign.farm import Farm, farm_of, own_stack
from envfarm_cli.campaign.figures import Evaluated, line, plain_results, tokens
from envfarm_cli.campaign.files import write_durably, write_json
from envfarm_cli.campaign.folder import CampaignFolder, put_aside
from envfarm_cli.campaign.narration import Meter, Narration
from envfarm_cli.campaign.probing import ProbePlan, probe
from envfarm_cli.campaign.publication import serve_weights
from envfarm_cli.campaign.stages import Stage, Stages
from envfarm_cli.campaign.training import TrainPlan, train
from envfarm_cli.campaign.waves import read_rows, rows_path
from envfarm_cli.commands_tasks import summary as proof_summary
from envfarm_cli.demo.conclusion import conclude
from envfarm_cli.demo.recipe import DemoRecipe
from envfarm_cli.demo.selection import select_tasks
from envfarm_cli.demo.warm_start import make_model, play_demonstrations, warm_start
from envfarm_cli.domain_files import find_tasks
from envfarm_cli.failure import BadInput, Failure
from envfarm_cli.output import Output, plain
from envfarm_cli.service_specs import StackOptions
from envfarm_cli.stack import Stack
from envfarm_cli.state_dir import StateDir
from envfarm_numbers.probing import StoppingRule
from envfarm_numbers.suite import Suite

STAGES = 8
PROVED_AT_ONCE = 28


def learning_demo(
    recipe: DemoRecipe,
    out: Output,
    *,
    domains: Path,
    runs: Path,
    resume: bool,
    fresh: bool,
    proof: Path | None,
) -> int:
    """Run it, or go on with it; the exit code: 3 when the policy did not get better."""
    path = runs / recipe.run_id
    if resume and not (path / "stages.json").exists():
        raise BadInput(
            f"there is nothing to resume in {path}", hint="without --resume the demo begins"
        )
    if fresh and (aside := put_aside(path)):
        out.say(f"the earlier demo is now {plain(aside)}")
    begun = (path / "stages.json").exists()
    out.say(
        f"[b]envfarm demo[/b], seed {recipe.seed}: about {recipe.minutes:g} minutes on two idle cores. "
        f"{'It goes on' if begun else 'Everything is'} in {plain(path)}"
    )
    out.say("[dim]Stop it whenever you like; the same command goes on where it was.[/dim]")
    with CampaignFolder(path, recipe) as folder:
        demo = LearningDemo(recipe, folder, Narration(out, STAGES), domains)
        demo.run()
        return conclude(demo.stages, folder, recipe, runs, demo.narration, proof)


class LearningDemo:
    """The stages in order; every one of them is skipped when its result is there and verified."""

    def __init__(
        self, recipe: DemoRecipe, folder: CampaignFolder, narration: Narration, domains: Path
    ):
        self.recipe = recipe
        self.folder = folder
        self.path = folder.path
        self.narration = narration
        self.domains = domains
        self.stages = Stages(folder.path, recipe.hash)
        narration.beat = self.stages.beat

    def run(self) -> None:
        if self.stages.is_done("after", ("train", "before")):
            self.narration.note("everything was measured before; the report is made from it")
            return
        options = StackOptions(
            domains=self.domains,
            engine="vllm",
            model=self.path / "model",
            gateway_state=self.path / "gateway",
            gateway_settings=self.recipe.gateway_settings(),
            max_model_len=self.recipe.max_tokens,
        )
        with own_stack(StateDir(self.path / "state"), options, self.narration.note) as stack:
            self._start(stack)
            self._prove(stack)
            self._warm_up(stack)
            with self._serving(stack) as farm:
                self._probe(farm)
                self._evaluate(farm, "before", "5 held-out tasks, before", 0)
                self._train(farm)
                self._evaluate(farm, "after", "held-out tasks, after", self.recipe.train.updates)

    # 1, 2

    def _start(self, stack: Stack) -> None:
        self._say(
            "the stack",
            "Valkey, Postgres behind the env-server, grader, and vLLM, which loads in the "
            "background; all are private processes of this demo",
            about="20 s",
        )
        self._once(
            "model",
            lambda: make_model(stack, self.path / "model", self.recipe, self.domains),
            files=(self.path / "model" / "model.safetensors",),
        )
        with self.stages.timed("stack"):
            stack.start_engine()
            stack.start_valkey()
            stack.start_env_server()
            stack.start_grader()

    def _prove(self, stack: Stack) -> None:
        self._say(
            "proofs",
            "every task proves itself: its golden run passes twice, doing nothing fails, and every "
            "mutant of the golden run is caught",
            about="1 min",
        )

        ids = [files.task_id for files in find_tasks(self.domains, self.recipe.domain)]
        parts = [
            ids[start : start + PROVED_AT_ONCE] for start in range(0, len(ids), PROVED_AT_ONCE)
        ]
        names = tuple(f"proofs-{number}" for number in range(1, len(parts) + 1))
        with self.narration.meter("tasks proved", len(ids)) as meter:
            for number, (name, part) in enumerate(zip(names, parts, strict=True)):
                before = number * PROVED_AT_ONCE
                work = partial(self._prove_part, stack, part, before, meter)
                self.stages.run(Stage(name=name, work=work))
                meter.at(before + len(part))

        def work_all() -> dict[str, Any]:
            found = [self.stages.result(name) for name in names]
            keys = ("tasks", "passed", "mutants", "mutants_killed")
            return {key: sum(one[key] for one in found) for key in keys}

        found = self.stages.run(Stage(name="proofs", needs=names, work=work_all))
        self.narration.say(
            f"{found['passed']} of {found['tasks']} tasks proved, {found['mutants_killed']} of "
            f"{found['mutants']} mutants caught"
        )

    def _prove_part(
        self, stack: Stack, tasks: list[str], before: int, meter: Meter
    ) -> dict[str, Any]:
        """One part, so that a kill costs no more than it."""
        done = before

        def on_line(text: str) -> None:
            nonlocal done
            done += 1
            meter.at(done)

        proofs = stack.prove(self.recipe.domain, on_line, tasks)
        if proofs.failures or proofs.tasks < len(tasks):
            task, reason = (proofs.failures or [(tasks[0], "the grader does not know it")])[0]
            raise Failure(f"{task} is not proved: {reason}", hint="`envfarm tasks validate`")
        return proof_summary(proofs)

    # 3

    def _warm_up(self, stack: Stack) -> None:
        self._say(
            "a small policy",
            "a Qwen3-architecture model learns the conversation's form from recorded golden and "
            "nearly golden attempts; it still decides badly",
            about="4 min",
        )
        played = self._once(
            "demonstrations",
            lambda: play_demonstrations(stack, self.path, self.recipe, self.narration),
        )
        self.narration.say(
            f"{played['conversations']} conversations recorded through the real gateway, "
            f"{100 * played['reward_mean']:.0f} % of them right"
        )
        fitted = self._once(
            "warm-start",
            lambda: warm_start(stack, self.path, self.recipe, self.narration),
            needs=("model", "demonstrations"),
            files=(self.path / "sft" / "model" / "model.safetensors",),
        )
        self.narration.say(
            f"{fitted['steps']} steps of supervised learning: loss {fitted['first_loss']:.2f} → "
            f"{fitted['last_loss']:.2f}"
        )

    @contextmanager
    def _serving(self, stack: Stack) -> Iterator[Farm]:
        """vLLM and gateway serve; version 0 is the warm-started policy until training begins."""
        with self.stages.timed("serve"):
            with self.narration.meter("waiting for vLLM") as meter:
                meter.at(0)
                stack.wait_for_engine()
            stack.start_gateway()
        with farm_of(stack) as farm:
            if not self.stages.is_done("before", ("warm-start",)):
                with self.stages.timed("serve"):
                    self._serve_version_0(farm)
            yield farm

    def _serve_version_0(self, farm: Farm) -> None:
        serve_weights(
            farm,
            self.recipe.run_id,
            self.path / "sft" / "model",
            self.path / "training",
            self._learner(),
            self.recipe.learner_overrides(),
        )

    # 4

    def _probe(self, farm: Farm) -> None:
        recipe = self.recipe
        train_tasks = served.choose(farm.tasks(), recipe.domain, {"split": "train"})
        plan = ProbePlan(
            name=f"{recipe.run_id}.probe",
            tasks=train_tasks,
            rule=StoppingRule(
                minimum=recipe.probe.minimum, cap=recipe.probe.cap, worth=recipe.probe.worth
            ),
            at_once=recipe.probe.at_once,
            budget=0,
            seed=recipe.seed,
            run_id=recipe.run_id,
            policy=self._version(0),
        )
        self._say(
            "probe and select",
            f"{len(train_tasks)} training tasks, each attempted until its difficulty band is clear; "
            f"about {plan.expected_attempts:.0f} attempts expected. Tasks that it always or never "
            "solves teach nothing and are left out",
            about="1 min",
        )

        def work() -> dict[str, Any]:
            with self.narration.meter("attempts", round(plan.expected_attempts)) as meter:
                found = probe(plan, farm, self.path / "probe", meter)
            return {"tasks": found, "attempts": sum(t["clean"] + t["excused"] for t in found)}

        probed = self._once(
            "probe", work, needs=("warm-start",), files=(self.path / "probe" / "attempts.jsonl",)
        )
        selected = self._once(
            "select",
            lambda: select_tasks(served.facts(farm.tasks(), train_tasks), self.path, recipe),
            needs=("probe",),
            files=(self.path / "selection" / "manifest.json",),
        )
        self.narration.say(
            f"{probed['attempts']} attempts; {len(selected['tasks'])} tasks selected: "
            + ", ".join(f"{band} {count}" for band, count in selected["bands"].items())
        )

    # 5, 7

    def _evaluate(self, farm: Farm, name: str, title: str, version: int) -> None:
        suite = self._suite(farm)
        k = self.recipe.evaluation.k
        self._say(
            f"evaluate {name} training",
            f"{len(suite.tasks)} held-out tasks × {k} attempts, each in a fresh database; never "
            "trained on, the same suite and seed before and after",
            about="1 min",
        )
        plan = Plan(
            name=f"{self.recipe.run_id}.{name}",
            suite=suite,
            k=k,
            seed=self.recipe.seed,
            run_id=self.recipe.run_id,
            policy=self._version(version),
        )
        path = self.path / name

        def work() -> dict[str, Any]:
            with self.narration.meter("attempts", len(plan.keys)) as meter:
                rows = evaluate(plan, farm, path, meter)
            results = Evaluated.read(path / "attempts.jsonl").results
            return {
                **plain_results(results, len(rows)),
                "tokens": tokens(rows),
                "policy_number": version,
                "suite_hash": suite.hash,
            }

        needs = ("warm-start",) if name == "before" else ("train", "before")
        self._once(name, work, needs=needs, files=(path / "attempts.jsonl",))
        for estimate in Evaluated.read(path / "attempts.jsonl").results.headline():
            self.narration.say(line(estimate))

    # 6

    def _train(self, farm: Farm) -> None:
        recipe, wanted = self.recipe, self.recipe.train
        tasks = self.stages.result("select")["tasks"]
        self._say(
            "train",
            f"GRPO: {wanted.updates} updates of {wanted.groups_per_update} groups × "
            f"{wanted.group_size} attempts on {len(tasks)} tasks; each update gives vLLM new weights"
            + ("; CONTROL: rewards are permuted in each group" if self._is_control else ""),
            about="9 min",
        )
        plan = TrainPlan(
            run_id=recipe.run_id,
            tasks=tasks,
            updates=wanted.updates,
            groups_per_update=wanted.groups_per_update,
            group_size=wanted.group_size,
            staleness=wanted.staleness,
            seed=recipe.seed,
            recipe=self._learner(),
            overrides={
                **recipe.learner_overrides(),
                "model": {
                    **recipe.learner_overrides()["model"],
                    "path": str(self.path / "sft" / "model"),
                },
            },
            max_replacements=wanted.max_replacements,
        )
        folder = self.path / "training"

        def work() -> dict[str, Any]:
            with self.narration.meter("updates", wanted.updates) as meter:
                found = train(plan, farm, folder, meter)
            rows = read_rows(rows_path(farm.records, f"{recipe.run_id}.train"))
            write_json(folder / "curves.json", curves(read_steps(folder / "learner"), rows))
            return {**found, "tokens": tokens(rows)}

        done = self._once(
            "train", work, needs=("warm-start", "select"), files=(folder / "curves.json",)
        )
        groups = done["groups"]
        self.narration.say(
            f"{groups['published']} groups published, {groups['replaced_zero_variance']} replaced "
            f"because all rewards were equal, {groups['refilled_samples']} attempts run again"
        )

    # shared

    @property
    def _is_control(self) -> bool:
        return self.recipe.control == "permuted"

    def _learner(self) -> Path:
        return Path(self.recipe.learner).absolute()

    def _version(self, number: int) -> policy_pb2.PolicyVersion:
        return policy_pb2.PolicyVersion(run_id=self.recipe.run_id, number=number)

    def _suite(self, farm: Farm) -> Suite:
        path = self.path / "suite.json"

        def work() -> dict[str, Any]:
            tasks = farm.tasks()
            ids = served.choose(tasks, self.recipe.domain, {"split": "eval"})
            wanted = self.recipe.evaluation.tasks or len(ids)
            # Evenly over the families, which follow each other in id order.
            step = max(1, len(ids) // wanted)
            suite = served.freeze("demo", tasks, ids[::step][:wanted])
            write_durably(path, suite.to_json().encode())
            return {"hash": suite.hash, "tasks": len(suite.tasks)}

        self.stages.run(Stage(name="suite", work=work, files=(path,)))
        return Suite.read(path)

    def _say(self, title: str, text: str, about: str = "") -> None:
        self.narration.stage(title, text, about if self.recipe.minutes >= 10 else "")

    def _once(
        self,
        name: str,
        work: Callable[[], dict[str, Any]],
        *,
        needs: tuple[str, ...] = (),
        files: tuple[Path, ...] = (),
    ) -> dict[str, Any]:
        if self.stages.is_done(name, needs):
            self.narration.done_before(self.stages.seconds[name])
            return self.stages.result(name)
        return self.stages.run(Stage(name=name, needs=needs, work=work, files=files))
