"""The engines as one policy: placement of generations, and the order in which new weights go in.

An engine serves only after it proved, by the probe prompt, that it holds the version in service.
Generations wait while no engine serves. An engine that fails is left out until it proved itself
again; the weights of a failed probe are never sampled from.
"""

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from envfarm.errors import EngineError, EnvfarmError, PromptTooLong, VersionMismatch
from envfarm.v1 import policy_pb2
from envfarm_common import logging

from rollout_gateway.engine import Engine, Generation

log = logging.get(__name__)

RETRY_SECONDS = 1.0


MakeEngine = Callable[[str], Engine]


class EngineState(StrEnum):
    UNPROVED = "unproved"
    """Not yet known to hold the version in service."""
    UPDATING = "updating"
    SERVING = "serving"
    MISMATCH = "mismatch"
    """Proved to hold other weights; paused until the next announcement."""
    DRAINING = "draining"
    """Told to leave: ends what it runs and gets nothing new."""


@dataclass(slots=True)
class Place:
    engine: Engine
    state: EngineState = EngineState.UNPROVED
    running: int = 0
    proving: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledTurn:
    ids: list[int]
    logprobs: list[float]
    versions: list[tuple[int, int]]
    """(policy version number, length), in order."""
    cut: bool


class Policy:
    def __init__(self, engines: Sequence[Engine], stops: tuple[int, ...], update_mode: str):
        self.places = [Place(engine) for engine in engines]
        self._stops = stops
        self._update_mode = update_mode
        self._changed = asyncio.Condition()
        self._target: policy_pb2.WeightUpdate | None = None
        self._labels: Mapping[str, int] = {}
        self.max_length = 0
        """Longest sequence that an engine takes, in tokens; 0 until one serves."""

    async def close(self) -> None:
        for place in self.places:
            await place.engine.close()

    @property
    def is_serving(self) -> bool:
        return any(place.state is EngineState.SERVING for place in self.places)

    async def use(self, urls: Sequence[str], make: MakeEngine) -> None:
        """These engines from now on: new ones prove themselves first, others end what they run."""
        wanted = dict.fromkeys(urls)
        for place in self.places:
            if place.engine.url not in wanted:
                await self._move(place, EngineState.DRAINING)
            elif place.state is EngineState.DRAINING:
                await self._move(place, EngineState.UNPROVED)
        known = {place.engine.url for place in self.places}
        self.places += [Place(make(url)) for url in wanted if url not in known]

    async def wait_until_serving(self) -> int:
        """Returns the engines' longest sequence in tokens."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_serving)
        return self.max_length

    async def generate(
        self, ids: Sequence[int], *, request_id: str, sticky: str, max_tokens: int
    ) -> SampledTurn:
        """One turn from the engine that `sticky` (a rollout) belongs to.

        Raises EngineError; PromptTooLong when the prompt leaves no room for a single token.
        """
        if len(ids) >= await self.wait_until_serving():
            raise PromptTooLong(
                f"{request_id}: {len(ids)} prompt tokens, the engines take {self.max_length} in all"
            )
        place = await self._place(sticky)
        place.running += 1
        try:
            generation = await place.engine.generate(
                ids, request_id=request_id, max_tokens=max_tokens, stops=self._stops
            )
            await self._settled(place)
            return self._known(place, generation)
        except EngineError:
            await self._move(place, EngineState.UNPROVED, only_from=EngineState.SERVING)
            raise
        finally:
            place.running -= 1

    async def put_into_service(
        self, update: policy_pb2.WeightUpdate, labels: Mapping[str, int]
    ) -> float:
        """Load `update` everywhere; returns the largest probe gap.

        `labels` maps the labels that sampled tokens may carry from now on to version numbers. An
        engine that cannot be reached is left out and tried again; VersionMismatch stops them all.
        """
        self._target, self._labels = update, labels
        places = [place for place in self.places if place.state is not EngineState.DRAINING]
        for place in places:
            await self._move(place, EngineState.UPDATING)
        answers = await asyncio.gather(
            *(self._prove(place, reload=True) for place in places), return_exceptions=True
        )
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        wrong = next((e for e in errors if not isinstance(e, EngineError)), None)
        if wrong is not None:
            for place in places:
                await self._stop(place)
            raise wrong
        gaps = [answer for answer in answers if isinstance(answer, float)]
        if not gaps:
            raise errors[0] if errors else EngineError("there is no engine", hint="add one")
        return max(gaps)

    async def supervise(self) -> None:
        """Bring engines that failed or started again back into service, for ever."""
        while True:
            for place in list(self.places):
                if self._target is not None and place.state is EngineState.UNPROVED:
                    await self._heal(place)
                if place.state is EngineState.DRAINING and not place.running:
                    self.places.remove(place)
                    await place.engine.close()
                    log.info("engine left", url=place.engine.url)
            await asyncio.sleep(RETRY_SECONDS)

    def resume(self, update: policy_pb2.WeightUpdate, labels: Mapping[str, int]) -> None:
        """After a restart of ours: engines may hold `update` already, and prove it to `supervise`."""
        self._target, self._labels = update, labels

    async def _heal(self, place: Place) -> None:
        if not await place.engine.is_healthy():
            return
        try:
            await self._prove(place, reload=False)
            log.info("engine serves", url=place.engine.url)
        except VersionMismatch as error:
            await self._stop(place)
            log.error("engine holds wrong weights", url=place.engine.url, error=error.message)
        except EnvfarmError as error:
            log.warning("engine is not ready", url=place.engine.url, error=error.message)

    async def _prove(self, place: Place, *, reload: bool) -> float:
        """Afterwards the engine serves, or the error says why not."""
        async with place.proving:
            await self._move(place, EngineState.UPDATING)
            try:
                gap = await self._load_and_probe(place.engine, reload)
            except EngineError:
                await self._move(place, EngineState.UNPROVED)
                raise
            await self._move(place, EngineState.SERVING)
            return gap

    async def _load_and_probe(self, engine: Engine, reload: bool) -> float:
        target = self._target
        if target is None:
            raise EngineError("there is no policy version yet")
        label = label_of(target.version)
        length = await engine.max_length()
        if reload or await engine.label() != label:
            await engine.reload(target.path, label, self._update_mode)
        gap = await engine.check_probe(target.probe)
        if target is not self._target:
            raise EngineError(f"{engine.url}: a newer version was announced meanwhile")
        self.max_length = length
        return gap

    async def _stop(self, place: Place) -> None:
        await self._move(place, EngineState.MISMATCH)
        try:
            await place.engine.pause()
        except EngineError as error:
            log.warning("engine could not be paused", url=place.engine.url, error=error.message)

    async def _place(self, sticky: str) -> Place:
        """The engine of that rollout while it serves, so that its prefix cache is of use."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.is_serving)
            serving = [place for place in self.places if place.state is EngineState.SERVING]
            # By the largest hash of both names: an engine that comes or goes moves its own only.
            return max(
                serving, key=lambda place: zlib.crc32(f"{sticky} {place.engine.url}".encode())
            )

    async def _settled(self, place: Place) -> None:
        """A turn that ran through an update counts only if the update's probe was right."""
        async with self._changed:
            await self._changed.wait_for(lambda: place.state is not EngineState.UPDATING)
        if place.state is EngineState.MISMATCH:
            raise EngineError(f"{place.engine.url}: sampled while its weights were in doubt")

    def _known(self, place: Place, generation: Generation) -> SampledTurn:
        unknown = {label for label, _ in generation.spans} - self._labels.keys()
        if unknown:
            raise EngineError(
                f"{place.engine.url}: sampled under weights {', '.join(sorted(unknown))}, "
                "which are not in service"
            )
        versions = [(self._labels[label], length) for label, length in generation.spans]
        return SampledTurn(
            ids=generation.ids,
            logprobs=generation.logprobs,
            versions=versions,
            cut=generation.cut,
        )

    async def _move(
        self, place: Place, state: EngineState, *, only_from: EngineState | None = None
    ) -> None:
        async with self._changed:
            leaves = place.state is EngineState.DRAINING and state is not EngineState.UNPROVED
            if not leaves and (only_from is None or place.state is only_from):
                place.state = state
                self._changed.notify_all()


def label_of(version: policy_pb2.PolicyVersion) -> str:
    """How an engine names the weights of a version: number and the head of the hash."""
    return f"{version.number}:{version.weights_hash[:16]}"
