"""An OpenAI-compatible chat endpoint as the policy under evaluation.

What it fails with is told apart, because different things help:

EndpointBusy      429, 529, or a connection limit: asked again, after Retry-After where it is given
EngineError       5xx, no answer in time, a broken connection, an answer that cannot be read: as well
PromptTooLong     the conversation does not fit the model
EndpointRefused   key, model, quota or request: it would refuse again, so nothing is repeated
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx
from envfarm.canonical import content_hash
from envfarm.errors import EndpointBusy, EndpointRefused, EngineError, PolicyError, PromptTooLong

from rollout_gateway.chat.calls import MalformedCall, ToolCall, checked, malformed, refuse_constant
from rollout_gateway.chat.parse import Reply, split_reasoning

TRIES = 5
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 60.0
SHOWN = 300
TOO_LONG = ("context_length_exceeded", "maximum context length", "context window", "too long")
NO_MONEY = ("insufficient_quota", "billing")
OWN_KEYS = frozenset({"model", "messages", "tools", "stream", "n"})
"""Of a request: set here, never by parameters."""

LimitField = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One message of the endpoint."""

    reply: Reply
    cut: bool
    prompt_tokens: int
    sampled_tokens: int


class ChatEndpoint:
    """One for all conversations."""

    def __init__(
        self,
        *,
        url: str,
        model: str,
        key: str,
        parameters: Mapping[str, Any],
        limit_field: LimitField,
        seconds: float,
    ):
        """`url` is what /chat/completions is added to; `parameters` go into every request."""
        self.url, self.model = url.rstrip("/"), model
        self._parameters, self._limit_field = dict(parameters), limit_field
        self.sampling_hash = content_hash({"interface": "chat", "parameters": self._parameters})
        self._client = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=seconds,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def say(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], max_tokens: int
    ) -> Answer:
        """The next message. Raises EndpointBusy, EngineError, PromptTooLong, EndpointRefused."""
        body = {
            "model": self.model,
            "messages": list(messages),
            **({"tools": list(tools)} if tools else {}),
            self._limit_field: max_tokens,
            **self._parameters,
        }
        for tried in range(1, TRIES + 1):
            try:
                return self._read(await self._ask(body))
            except (EndpointBusy, EngineError) as error:
                if tried == TRIES:
                    raise
                pause = error.retry_after_seconds or FIRST_PAUSE_SECONDS * 2 ** (tried - 1)
                await asyncio.sleep(min(pause, MAX_PAUSE_SECONDS))
        raise AssertionError("the last try returns or raises")

    async def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._client.post("/chat/completions", json=body)
        except httpx.HTTPError as error:
            raise EngineError(f"{self.url}: {type(error).__name__}: {error}") from error
        if answer.status_code != 200:
            raise self._refusal(answer)
        try:
            value = answer.json()
        except ValueError as error:
            raise EngineError(f"{self.url}: the answer is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise EngineError(f"{self.url}: the answer is not a JSON object")
        return value

    def _refusal(self, answer: httpx.Response) -> PolicyError:
        status, text = answer.status_code, " ".join(answer.text.split())
        said = f"{self.url}: HTTP {status}: {text[:SHOWN]}"
        low = text.lower()
        if status in (400, 413, 422) and any(word in low for word in TOO_LONG):
            return PromptTooLong(said)
        if status in (408, 409, 425) or (status >= 500 and status != 529):
            return EngineError(said, retry_after_seconds=_retry_after(answer))
        if status in (429, 529) and not any(word in low for word in NO_MONEY):
            return EndpointBusy(said, retry_after_seconds=_retry_after(answer))
        return EndpointRefused(said, hint=_advice(status))

    def _read(self, value: dict[str, Any]) -> Answer:
        try:
            choice, usage = value["choices"][0], value["usage"]
            message = choice["message"]
            prompt, sampled = int(usage["prompt_tokens"]), int(usage["completion_tokens"])
            reply = _reply(message)
            ended = choice.get("finish_reason")
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise EngineError(
                f"{self.url}: no message with its usage in the answer: {error!r}"
            ) from error
        return Answer(
            reply=reply,
            cut=ended == "length",
            prompt_tokens=max(0, prompt),
            sampled_tokens=max(0, sampled),
        )


def _reply(message: Mapping[str, Any]) -> Reply:
    content = message.get("content") or ""
    if not isinstance(content, str):
        raise TypeError("the content is not a text")
    thought, text = split_reasoning(content)
    apart = message.get("reasoning_content") or message.get("reasoning") or ""
    calls = tuple(_call(call.get("function") or {}) for call in message.get("tool_calls") or ())
    return Reply(
        reasoning=thought or (apart if isinstance(apart, str) else ""),
        text=text.strip(),
        calls=calls,
    )


def _call(function: Mapping[str, Any]) -> ToolCall | MalformedCall:
    """As a call in a sampled turn: what is wrong with it becomes a sentence for the model."""
    name, written = str(function.get("name") or ""), function.get("arguments")
    if not name.strip():
        return malformed(str(written), 'The tool call needs a "name".')
    if isinstance(written, dict):
        return checked(str(written), name, written)
    text = str(written or "{}")
    try:
        arguments = json.loads(text, parse_constant=refuse_constant)
    except RecursionError:
        return malformed(text, "The arguments are nested too deeply.", name)
    except ValueError as error:
        return malformed(text, f"The arguments are not valid JSON: {error}.", name)
    return checked(text, name, arguments)


def _retry_after(answer: httpx.Response) -> float:
    try:
        return max(0.0, float(answer.headers.get("retry-after", 0)))
    except ValueError:
        return 0.0


def _advice(status: int) -> str:
    if status in (401, 403):
        return "set the endpoint's key in GATEWAY_CHAT_KEY"
    if status == 404:
        return (
            "look at GATEWAY_CHAT_URL, to which /chat/completions is added, and GATEWAY_CHAT_MODEL"
        )
    if status in (402, 429):
        return "the account has no quota left"
    return (
        "look at GATEWAY_CHAT_PARAMETERS and GATEWAY_CHAT_LIMIT_FIELD: not every endpoint takes all"
    )
