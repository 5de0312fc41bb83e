"""Start-up and end of a run: wiring only. Lease first, then metrics, weights, the loop."""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis
from envfarm.errors import ConfigError, StreamError, boundary
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry

from learner import checkpoint, preflight, process_group, settings
from learner.checkpoint import Progress
from learner.config import Config
from learner.files import write_durably
from learner.lease import Lease
from learner.ledger import Ledger
from learner.metrics import LearnerMetrics
from learner.publication import READY, Publication
from learner.store import FolderStore, GroupStore, RedisStore
from learner.stream import GroupStream
from learner.tracing import Traces
from learner.train import Trainer, checkpoints
from learner.trainee import LeadingTrainee, Trainee, follow
from learner.weights import Announcer

SOCKET_SECONDS = 5.0


def run(config: Config, stop: threading.Event) -> None:
    """One process's life; raises EnvfarmError for everything that has a name."""
    launched = settings.launched()
    if launched is not None and launched.rank > 0:
        process_group.join()
        preflight.check(config)
        follow(Trainee(config))
        return
    token = settings.gateway_token(config.gateway.token_file)
    print(config.described(), file=sys.stderr, flush=True)
    _write_config(config)
    client = _connect(settings.redis_url(config.stream.redis_url))
    lease = Lease(client, config.run.id, config.run.lease_seconds)
    if not lease.take(stop):
        return
    try:
        metrics = LearnerMetrics(config.run.dir / "steps.jsonl", _also(config))
        # Before the weights are read, which takes its time: who scrapes has then seen every counter
        # at 0, and the groups taken first are in its rates.
        metrics.serve(config.metrics.host, config.metrics.port)
        process_group.join()
        preflight.check(config)
        trainee = LeadingTrainee(config)
        _lead(config, trainee, client, lease, metrics, token, stop)
        trainee.end()
    finally:
        (config.run.dir / READY).unlink(missing_ok=True)
        lease.release()


def _lead(
    config: Config,
    trainee: LeadingTrainee,
    client: redis.Redis,
    lease: Lease,
    metrics: LearnerMetrics,
    token: str,
    stop: threading.Event,
) -> None:
    """Rank 0's part: the loop, on what the last checkpoint holds."""
    run_dir = config.run.dir
    progress, ledger = checkpoint.load(
        checkpoints(run_dir), trainee, recipe_hash=config.recipe_hash()
    ) or (Progress(), Ledger([]))
    announcer = Announcer(
        config.gateway.address,
        token,
        deadline_seconds=config.gateway.announce_seconds,
        give_up_seconds=config.gateway.give_up_seconds,
        wait=stop.wait,
        clock=time.monotonic,
    )
    traces = Traces(settings.otlp_endpoint())
    Trainer(
        config=config,
        trainee=trainee,
        stream=GroupStream(
            client,
            _reader(config),
            config.run.id,
            _store(config, client),
            lease,
            trainee.still_waiting,
        ),
        lease=lease,
        publication=Publication(
            config=config,
            trainee=trainee,
            announcer=announcer,
            lease=lease,
            metrics=metrics,
            progress=progress,
        ),
        metrics=metrics,
        traces=traces,
        progress=progress,
        ledger=ledger,
        stop=stop,
    ).train()
    traces.close()


def _also(config: Config) -> Callable[[dict[str, Any]], None]:
    if not config.metrics.tensorboard:
        return lambda _: None
    from learner.tensorboard import EventFile  # takes seconds to import

    return EventFile(config.run.dir / "tensorboard").step


def _write_config(config: Config) -> None:
    path = config.run.dir / "config.json"
    resolved = {
        "recipe_hash": config.recipe_hash(),
        "recipe": config.recipe(),
        "config": config.model_dump(mode="json"),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, json.dumps(resolved, indent=1, sort_keys=True).encode())
    except OSError as error:
        raise ConfigError(f"run.dir: cannot write {path}: {error.strerror}") from error


def _connect(url: str) -> redis.Redis:
    try:
        client = redis.Redis.from_url(url, socket_timeout=SOCKET_SECONDS, retry=_patience())
    except ValueError as error:
        raise ConfigError(f"stream.redis_url: {error}") from error
    with boundary(StreamError, f"stream.redis_url: no Redis at {_place(client)}", redis.RedisError):
        client.ping()
    return client


def _patience() -> Retry:
    """Of the commands that may be sent twice: a dropped connection is no reason to stop."""
    return Retry(ExponentialBackoff(cap=1.0, base=0.05), 6)


def _reader(config: Config) -> redis.Redis:
    return redis.Redis.from_url(
        settings.redis_url(config.stream.redis_url),
        socket_timeout=SOCKET_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def _place(client: redis.Redis) -> str:
    """The address without the password."""
    known = client.connection_pool.connection_kwargs
    return str(known.get("path") or f"{known.get('host')}:{known.get('port')}")


def _store(config: Config, client: redis.Redis) -> GroupStore:
    folder: Path | None = config.stream.store_dir
    return RedisStore(client) if folder is None else FolderStore(folder)
