"""A gateway that answers jobs at once, from a rule; for campaigns whose own logic is looked at.

The rule gets (task id, repetition within the job, attempt, job id) and gives 1.0, 0.0, or None for an
attempt without reward. As the real gateway does, a slot is tried `attempts_per_slot` times, rows are
written to <records>/jobs/<job>/attempts.jsonl, and a job that is known is not run again.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from envfarm.attempt_row import AttemptRow
from envfarm.v1 import gateway_service_pb2, task_pb2

from envfarm_cli.campaign.narration import Meter

Rule = Callable[[str, int, int, str], float | None]


class Silent(Meter):
    """A meter that nobody sees."""

    def at(self, done: float, note: str = "", total: float | None = None) -> None:
        """Nothing."""


class CannedGateway:
    def __init__(self, records: Path, rule: Rule, attempts_per_slot: int):
        self._records, self._rule, self._attempts = records, rule, attempts_per_slot
        self.submitted: list[str] = []
        """Job ids in order of submission, known ones included."""
        self.waiting: set[str] = set()
        """Jobs that wait for a version."""
        self.cancelled: list[str] = []
        self.error_class = "EngineError"
        """Of attempts without reward."""
        self.interfaces: set[str] = set()
        """That jobs asked for."""

    def submit(self, request: gateway_service_pb2.SubmitJobRequest) -> None:
        self.submitted.append(request.job_id)
        self.interfaces.add(request.interface)
        path = self._records / "jobs" / request.job_id / "attempts.jsonl"
        if path.exists():
            return
        path.parent.mkdir(parents=True)
        lines = []
        for task in request.task_ids:
            for slot in range(request.group_size):
                for attempt in range(1, self._attempts + 1):
                    reward = self._rule(task, slot, attempt, request.job_id)
                    made = row(task, slot, attempt, reward)
                    if reward is None:
                        made = replace(made, error_class=self.error_class)
                    lines.append(made.to_json() + "\n")
                    if reward is not None:
                        break
        path.write_text("".join(lines))

    def job(self, job_id: str) -> gateway_service_pb2.JobStatus:
        if job_id in self.waiting:
            state = gateway_service_pb2.JOB_STATE_RUNNING
            return gateway_service_pb2.JobStatus(job_id=job_id, state=state, waiting_for="version")
        return gateway_service_pb2.JobStatus(
            job_id=job_id, state=gateway_service_pb2.JOB_STATE_DONE
        )

    def status(self) -> gateway_service_pb2.GetStatusResponse:
        return gateway_service_pb2.GetStatusResponse(jobs=map(self.job, self.submitted))

    def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)

    def wait_for_job(self, job_id, seconds, tick) -> gateway_service_pb2.JobStatus:
        tick(self.job(job_id))
        return self.job(job_id)


def canned_farm(
    folder: Path, rule: Rule, tasks: list[str], attempts_per_slot: int = 1
) -> SimpleNamespace:
    """What campaigns use of a Farm."""
    served = {
        task: task_pb2.Task(ref=task_pb2.TaskRef(task_id=task, task_hash=f"hash of {task}"))
        for task in tasks
    }
    return SimpleNamespace(
        gateway=CannedGateway(folder, rule, attempts_per_slot),
        records=folder,
        check=lambda: None,
        tasks=lambda: served,
        in_service=lambda: None,
    )


def row(task: str, repetition: int, attempt: int, reward: float | None) -> AttemptRow:
    failed = reward is None
    return AttemptRow(
        task_id=task,
        task_hash=f"hash of {task}",
        world_hash="world",
        tags={},
        repetition=repetition,
        attempt=attempt,
        rollout_id=f"r.{task}.{repetition}.{attempt}",
        episode_id="e",
        status="failed_engine" if failed else "completed",
        reward=reward,
        interface="tokens",
        policy_run="run",
        policy_numbers=[0],
        policy_hash="weights",
        renderer_hash="renderer",
        sampling_hash="sampling",
        checks_hash="checks",
        initial_state_hash="a",
        final_state_hash="b",
        prompt_tokens=100,
        sampled_tokens=20,
        user_tokens=0,
        judge_tokens=0,
        turns=2,
        tool_calls=1,
        tool_errors=0,
        seconds=0.5,
        tool_seconds=0.1,
        checks=[],
        writes={},
        error_class="EngineError" if failed else "",
        boundary="engine" if failed else "",
        message="gone" if failed else "",
    )
