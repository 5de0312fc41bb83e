"""Asks an OpenAI-compatible endpoint a question with two possible answers.

An answer that is neither is asked for once more and then is NoAnswer, never "no". Trouble on the way
is GraderError, which is retryable and no verdict.
"""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import stamina
from envfarm.canonical import content_hash
from envfarm.errors import ConfigError, GraderError

from grader.judge.cache import AnswerCache, Word
from grader.judge.prompt import PROMPT_VERSION, Message, render
from grader.verdict import CannotRun

ATTEMPTS = 2
"""How often an unparsable answer is asked for."""
MAX_TOKENS = 32

_FORMAT = {
    "type": "json_schema",
    "json_schema": {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"answer": {"type": "string", "enum": ["yes", "no"]}},
            "required": ["answer"],
            "additionalProperties": False,
        },
    },
}


class NoAnswer(CannotRun):
    """The judge said neither yes nor no, even when it was asked again."""

    def __init__(self, said: str):
        super().__init__(f"the judge answered neither yes nor no, {ATTEMPTS} times: {said[:80]!r}")
        self.said = said


@dataclass(frozen=True, slots=True)
class Answer:
    word: Word
    cached: bool
    tokens: int = 0
    """That it took, in and out, as the endpoint counts; answers that were no answer included."""


class Judge:
    """One model behind one endpoint."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str = "",
        timeout_seconds: float = 30.0,
        cache: AnswerCache | None = None,
        transport_tries: int = 3,
    ):
        """`url` ends before /chat/completions, such as http://127.0.0.1:8000/v1."""
        self._url = url.rstrip("/")
        self._model = model
        self._cache = cache if cache is not None else AnswerCache()
        self._tries = transport_tries
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.AsyncClient(timeout=timeout_seconds, headers=headers, trust_env=False)

    @property
    def identity(self) -> str:
        """Model, endpoint and prompt version, as stated in verdicts."""
        return f"{self._model} at {urlsplit(self._url).netloc}, prompt {PROMPT_VERSION}"

    async def ask(self, question: str, text: str, *, fresh: bool = False) -> Answer:
        """yes or no, or NoAnswer; `fresh` asks the model even if the answer is known, and remembers nothing."""
        messages = render(question, text)
        key = content_hash([self._url, self._model, PROMPT_VERSION, messages, _FORMAT])
        known = None if fresh else self._cache.get(key)
        if known is not None:
            return Answer(known, cached=True)
        said, spent = "", 0
        for attempt in range(ATTEMPTS):
            said, tokens = await self._complete(messages, seed=attempt)
            spent += tokens
            word = parse(said)
            if word is not None:
                if not fresh:
                    self._cache.put(key, word)
                return Answer(word, cached=False, tokens=spent)
        raise NoAnswer(said)

    async def close(self) -> None:
        await self._client.aclose()

    async def _complete(self, messages: list[Message], seed: int) -> tuple[str, int]:
        """What was said, and the tokens that it took."""
        body = {
            "model": self._model,
            "messages": messages,
            "temperature": 0,
            "seed": seed,
            "max_tokens": MAX_TOKENS,
            "response_format": _FORMAT,
        }
        where = f"the judge at {self._url}"
        try:
            async for attempt in stamina.retry_context(
                on=_worth_another_try, attempts=self._tries, wait_max=2.0, timeout=None
            ):
                with attempt:
                    response = await self._client.post(f"{self._url}/chat/completions", json=body)
                    response.raise_for_status()
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            if status in (401, 403, 404):
                raise ConfigError(
                    f"{where} answers {status}", hint="check GRADER_JUDGE_URL, _MODEL and _API_KEY"
                ) from error
            raise GraderError(f"{where} answers {status}: {error.response.text[:200]}") from error
        except httpx.HTTPError as error:
            raise GraderError(
                f"{where} cannot be asked: {type(error).__name__}: {error}"
            ) from error
        return _content(response), _tokens(response)  # pyright: ignore[reportPossiblyUnboundVariable]


def parse(said: str) -> Word | None:
    """The word of an answer, or None; an explanation around it makes it none."""
    text = said.strip()
    if text.casefold().rstrip(".") in ("yes", "no"):
        return "yes" if text.casefold().startswith("yes") else "no"
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    match value:
        case {"answer": "yes" | "no" as word} if len(value) == 1:
            return word
        case _:
            return None


def _content(response: httpx.Response) -> str:
    """The whole text of the first choice; empty when it was cut or refused, which is no answer."""
    try:
        choice = response.json()["choices"][0]
        if choice.get("finish_reason") != "stop":
            return ""
        return choice["message"]["content"] or ""
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""


def _tokens(response: httpx.Response) -> int:
    """Zero where the endpoint does not count."""
    try:
        total = response.json()["usage"]["total_tokens"]
    except (ValueError, LookupError, TypeError, AttributeError):
        return 0
    return total if isinstance(total, int) and total > 0 else 0


def _worth_another_try(error: Exception) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == 429 or error.response.status_code >= 500
    return isinstance(error, httpx.TransportError)
