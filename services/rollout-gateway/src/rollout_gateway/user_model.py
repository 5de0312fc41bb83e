"""Simulated users played by a model behind an OpenAI-compatible chat endpoint.

The model is told who it is (the task's user context), that it must not help the assistant, and how to
end the conversation; it sees what was said and nothing else. Its own failures are the user's:
UserModelError, never the policy's.
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import httpx
import stamina
from envfarm.canonical import content_hash
from envfarm.errors import UserModelError
from envfarm_common import tracing

END = "<end>"
TRIES = 3
INSTRUCTIONS = f"""\
You play a customer who talks to a support assistant. This is who you are and what you know:

{{context}}

Rules:
- Speak only as the customer, in one short message at a time, in plain text.
- Say only what stands above or was said before. What you do not know, you do not know.
- Give details when you are asked for them, not all at once. Do not help the assistant with its work.
- When your request is settled, was refused for good, or the conversation leads nowhere, write {END}
  and nothing else."""
MAX_TOKENS = 512
THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True, kw_only=True, slots=True)
class UserModelSettings:
    url: str
    """Of the endpoint, to which /chat/completions is added."""
    model: str
    key: str
    temperature: float
    seconds: float
    """Longest wait for one answer."""

    @property
    def hash(self) -> str:
        return content_hash(
            {"model": self.model, "temperature": self.temperature, "prompt": INSTRUCTIONS}
        )


class UserModel:
    """The endpoint; one for all conversations."""

    def __init__(self, settings: UserModelSettings):
        self._settings = settings
        headers = {"Authorization": f"Bearer {settings.key}"} if settings.key else {}
        self._client = httpx.AsyncClient(
            base_url=settings.url.rstrip("/"),
            headers=headers,
            timeout=settings.seconds,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def say(self, messages: list[dict[str, str]], seed: int) -> tuple[str, int]:
        """The next message and the tokens that it took, in and out. Raises UserModelError."""
        body = {
            "model": self._settings.model,
            "messages": messages,
            "temperature": self._settings.temperature,
            "max_tokens": MAX_TOKENS,
            "seed": seed,
        }
        try:
            async with asyncio.timeout(self._settings.seconds * TRIES):
                return _read(await self._ask(body))
        except (httpx.HTTPError, TimeoutError, ValueError) as error:
            raise UserModelError(f"users' model: {type(error).__name__}: {error}") from error

    async def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        async for attempt in stamina.retry_context(
            on=_may_pass, attempts=TRIES, wait_initial=0.2, wait_max=2.0
        ):
            with attempt:
                answer = await self._client.post(
                    "/chat/completions", json=body, headers=tracing.carried()
                )
                answer.raise_for_status()
                return answer.json()
        raise AssertionError("stamina returns or raises")


class ModelUser:
    """One conversation's user."""

    def __init__(self, model: UserModel, context: str, opening: str, seed: int):
        self._model, self._seed = model, seed
        self.tokens = 0
        self._messages = [
            {"role": "system", "content": INSTRUCTIONS.replace("{context}", context.strip())},
            # Seen from the user, what it says itself is the assistant's part.
            {"role": "assistant", "content": opening},
        ]

    async def answer(self, text: str) -> str | None:
        """What the user says to the assistant's `text`; None when the user leaves."""
        self._messages.append({"role": "user", "content": text})
        said, tokens = await self._model.say(self._messages, self._seed)
        self.tokens += tokens
        if END in said:
            return None
        self._messages.append({"role": "assistant", "content": said})
        return said


def _may_pass(error: Exception) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)


def _read(answer: dict[str, Any]) -> tuple[str, int]:
    """ValueError when there is no message in it; a user who says nothing has failed."""
    try:
        said = answer["choices"][0]["message"]["content"]
        tokens = answer.get("usage", {}).get("total_tokens", 0)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"no message in the answer: {error!r}") from error
    text = THOUGHT.sub("", said).strip() if isinstance(said, str) else ""
    if not text:
        raise ValueError("an empty message")
    return text, tokens if isinstance(tokens, int) else 0
