"""A stack of real parts on this machine: started in order, watched, stopped in reverse order.

`Stack` never restarts anything: a process that dies is written to state.json and reported.
"""

import time
from collections.abc import Callable
from pathlib import Path

import httpx
from envfarm_common.binaries import RedisServer

from envfarm_cli import interrupts, service_specs, settings, state_dir
from envfarm_cli.children import Child, ChildSet, died
from envfarm_cli.domain_files import find_domains, find_tasks
from envfarm_cli.failure import ChildFailed, Failure
from envfarm_cli.learner_config import Overrides, merge, write_config
from envfarm_cli.process_table import Identity, boot_id, identify
from envfarm_cli.proofs import ProofChoice, Proofs, is_proved, prove, remember_proof
from envfarm_cli.script_file import write_script
from envfarm_cli.service_specs import Spec, StackOptions
from envfarm_cli.state_dir import ProcessRecord, StackState, StateDir
from envfarm_cli.tiny_model import tiny_model

SERVICE_SECONDS = 300
"""Who dies is noticed at once; this is for who hangs, and a loaded machine is slow."""
ENGINE_SECONDS = 600
JOBS = ("proofs", "tiny-model", "sft")
"""Processes that end by themselves; who waits for them looks at how."""


class Stack:
    """One stack in `state`. The caller holds the folder's lock; `with` stops everything."""

    def __init__(self, state: StateDir, options: StackOptions, say: Callable[[str], None]):
        self.state = state
        self.options = options
        self.redis_url = ""
        self.model: Path | None = options.model
        self.records = options.gateway_state or state.path / "gateway"
        """State folder of the gateway that runs, or will."""
        self._say = say
        self.children = ChildSet(self._write)
        self.phase = state_dir.STARTING
        self._doing = self._message = self._hint = ""
        self._exit_code = 0
        self._started_at = time.time()
        self._me = identify_self()
        self._engine_url = ""
        self._unwritten = False
        """Whether state.json lags behind, because its disk was full."""

    def start(self) -> None:
        """Bring everything up; raises Failure, and then the caller stops what had started."""
        for name, port in self.options.ports.items():
            service_specs.refuse_taken(port, name)
        self.make_model()
        self.start_engine()
        self.start_valkey()
        self.start_env_server()
        self.start_grader()
        self.prove_new_tasks()
        self.wait_for_engine()
        self.start_policy()
        self.start_gateway()
        if self.options.learner_config:
            self.start_learner(self.options.learner_config)
        self.enter(state_dir.READY)

    def make_model(self) -> Path:
        """The model of the options, else the tiny one, made at first use."""
        self.doing("the model")
        if self.model is None:
            self.model = tiny_model(self.children, self.state, self.options.domains)
        return self.model

    def start_engine(self) -> None:
        """Start vLLM without waiting: it takes half a minute and more."""
        if not self.options.has_vllm:
            return
        assert self.model
        port = self.options.port("engine") or service_specs.free_port()
        self._engine_url = f"http://127.0.0.1:{port}"
        spec = service_specs.vllm(self.state, self.model, port, self.options.max_model_len)
        self._start(spec, ready_file=False)

    def wait_for_engine(self) -> None:
        child = self.find("engine")
        if child is None or child.facts:
            return
        self.doing("vLLM, which takes half a minute or more")
        with httpx.Client(timeout=2) as client:

            def probe() -> dict[str, str] | None:
                try:
                    answer = client.get(f"{self._engine_url}/health")
                except httpx.HTTPError:
                    return None
                return {"http": self._engine_url} if answer.status_code == 200 else None

            self._wait(child, ENGINE_SECONDS, probe)

    def start_valkey(self) -> str:
        """Its URL, password included."""
        self.doing("Valkey")
        folder = self.state.path / "valkey"
        with interrupts.held():
            server = RedisServer(folder, port=self.options.port("valkey"))
            self.redis_url = server.url
            child = self.children.adopt("valkey", server.process, folder / "redis.log")
            child.facts = {"http": "", "tcp": f"127.0.0.1:{server.port}"}
            self._write()
        state_dir.write_atomically(self.state.redis_file, {"url": server.url}, mode=0o600)
        self._say_ready(child)
        return server.url

    def start_env_server(self) -> str:
        """Its gRPC address."""
        return self._start_ready(service_specs.env_server(self.state, self.options))["grpc"]

    def start_grader(self) -> str:
        return self._start_ready(service_specs.grader(self.state, self.options))["http"]

    def prove(
        self,
        domain: str = "",
        on_line: Callable[[str], None] | None = None,
        tasks: list[str] | None = None,
    ) -> Proofs:
        """Run the proofs of these tasks, or of all, and write the golden snapshots. Rubrics are asked
        of the judge, or of its stand-in where none is configured."""
        self.doing(f"the proofs of {f'the tasks of {domain}' if domain else 'the tasks'}")
        return prove(
            self.children,
            self.state,
            domains=self.options.domains,
            env_server=self.address("env-server", "grpc"),
            choice=ProofChoice(
                domain=domain, tasks=tasks or (), stand_in_judge=not settings.judge()
            ),
            on_line=on_line,
            tick=self.fail_when_one_died,
        )

    def prove_new_tasks(self) -> None:
        """Prove each domain's tasks unless exactly its files were proved in this folder before."""
        for name in find_domains(self.options.domains):
            domain = self.options.domains / name
            if is_proved(self.state, domain) or not find_tasks(self.options.domains, name):
                continue
            proofs = self.prove(name)
            self._say(f"{name}: {proofs.passed} of {proofs.tasks} tasks proved")
            for task, reason in proofs.failures:
                self._say(f"{task} has no verdicts: {reason}")
            remember_proof(self.state, domain, proofs)

    def start_policy(self) -> None:
        """The scripted policy server in front of the engine, or in its place."""
        if self.options.has_script:
            script = write_script(self.state.path / "script.json", self.options.domains)
            self.start_script(script, self._engine_url)

    def start_script(self, script: Path, engine_url: str = "") -> None:
        """A policy server that answers from `script`; without an engine it makes up logprobs."""
        assert self.model
        port = self.options.port("policy.http")
        self._start_ready(
            service_specs.scripted_policy(self.state, script, self.model, engine_url, port)
        )

    def start_gateway(self, records: Path | None = None) -> None:
        """In front of the policy server while one runs, else of the engine."""
        assert self.model
        scripted = self.find("policy") is not None
        engine = self.address("policy", "http") if scripted else self._engine_url
        self.records = records or self.options.gateway_state or self.state.path / "gateway"
        self._start_ready(
            service_specs.gateway(
                self.state,
                self.options,
                model=self.model,
                engine=engine,
                env_server=self.address("env-server", "grpc"),
                grader=self.address("grader", "grpc"),
                redis_url=self.redis_url,
                records=self.records,
            )
        )

    def end(self, name: str) -> None:
        """Stop one process that is not needed any more."""
        child = self.find(name)
        if child is not None:
            self.children.forget(child)

    def start_learner(self, base: Path, overrides: Overrides | None = None) -> Child:
        """Start training by the configuration `base`; it ends by itself after its updates."""
        port = self.options.port("learner.http") or service_specs.free_port()
        addresses: Overrides = {
            "metrics": {"host": "127.0.0.1", "port": port},
            "stream": {"redis_url": self.redis_url},
            "gateway": {"address": self.address("gateway", "grpc")},
            "model": {"path": str(self.model)},
        }
        config = write_config(
            self.state.path / "learner.toml", base, merge(overrides or {}, addresses)
        )
        child = self._start(service_specs.learner(self.state, config), ready_file=False)
        child.facts = {"http": f"http://127.0.0.1:{port}"}
        self._write()
        return child

    def watch(self) -> None:
        """Report processes that die, until somebody interrupts us."""
        reported: set[str] = set()
        while True:
            for child in self.children.children:
                if child.exit_status is None or child.name in reported:
                    continue
                reported.add(child.name)
                if child.name == "learner" and child.exit_status == 0:
                    self._say("learner: done")
                    continue
                failure = died(child, "while serving")
                self._say(f"{failure.message} — {failure.hint}")
                self.enter(state_dir.DEGRADED, failure)
            if self._unwritten:
                self._write()
            time.sleep(0.2)

    def stop(self) -> None:
        """Stop everything in reverse order; a second stop is fine."""
        with interrupts.final():
            if self.phase != state_dir.FAILED:
                self.phase, self._doing = state_dir.STOPPING, ""
            self.children.stop()

    def __enter__(self) -> "Stack":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def find(self, name: str) -> Child | None:
        return next((child for child in self.children.children if child.name == name), None)

    def address(self, name: str, door: str) -> str:
        """host:port of a gRPC door, the URL of an HTTP door."""
        child = self.find(name)
        if child is None or door not in child.facts:
            raise ChildFailed(f"{name} does not run", hint="see `envfarm status`")
        return child.facts[door]

    def doing(self, what: str) -> None:
        self._doing = what
        self._write()

    def enter(self, phase: str, failure: Failure | None = None) -> None:
        """Move to a phase; `failure` says why it is failed or degraded."""
        self.phase, self._doing = phase, ""
        if failure:
            self._message, self._hint = failure.message, failure.hint
            self._exit_code = failure.exit_code
        self._write()

    def _start_ready(self, spec: Spec) -> dict[str, str]:
        self.doing(spec.name)
        child = self._start(spec)
        return self._wait(child, SERVICE_SECONDS)

    def _start(self, spec: Spec, *, ready_file: bool = True) -> Child:
        return self.children.start(
            spec.name,
            spec.argv,
            env=spec.env,
            log=self.state.log(spec.name),
            ready_file=self.state.ready(spec.name) if ready_file else None,
            cwd=self.state.path,
        )

    def _wait(
        self, child: Child, seconds: float, probe: Callable[[], dict[str, str] | None] | None = None
    ) -> dict[str, str]:
        facts = self.children.wait_ready(child, seconds, probe=probe, tick=self.fail_when_one_died)
        self._say_ready(child)
        return facts

    def _say_ready(self, child: Child) -> None:
        doors = [
            f"{door} {child.facts[door]}"
            for door in ("http", "grpc", "tcp")
            if child.facts.get(door)
        ]
        self._say(f"{child.name}: ready, {', '.join(doors)}")

    def fail_when_one_died(self) -> None:
        """Raise ChildFailed when a process that must serve has ended, however it ended."""
        for child in self.children.children:
            ended = child.exit_status is not None and child.name not in JOBS
            if ended and not (child.name == "learner" and child.exit_status == 0):
                raise died(child, "too early")

    def _write(self) -> None:
        records = [
            ProcessRecord(
                name=child.name,
                pid=child.identity.pid,
                start=child.identity.start,
                log=str(child.log),
                http=child.facts.get("http", ""),
                grpc=child.facts.get("grpc", "") or child.facts.get("tcp", ""),
                exit_status=child.exit_status,
            )
            for child in self.children.children
        ]
        now = StackState(
            phase=self.phase,
            supervisor=self._me,
            boot=boot_id(),
            started_at=self._started_at,
            engine=self.options.engine,
            model=str(self.model or ""),
            records=str(self.records),
            doing=self._doing,
            message=self._message,
            hint=self._hint,
            exit_code=self._exit_code,
            processes=records,
        )
        try:
            self.state.write(now)
        except OSError:
            # What serves goes on, and what is being stopped is stopped; only a start fails.
            if self.phase == state_dir.STARTING:
                raise
            self._unwritten = True
        else:
            self._unwritten = False


def identify_self() -> Identity:
    import os

    me = identify(os.getpid())
    assert me is not None
    return me
