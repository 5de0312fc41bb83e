"""A user played by a model: what it is told, how it ends, and that its failures are its own."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from envfarm.errors import UserModelError
from envfarm_common.http import HttpServer
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from rollout_gateway.user_model import ModelUser, UserModel, UserModelSettings

Answer = Callable[[dict[str, Any]], Any]


class Endpoint:
    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answers: list[Any] = []
        """Taken one by one: a message, or a whole response."""
        self.url = ""


def message(text: str | None) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}}], "usage": {"total_tokens": 20}}


@pytest_asyncio.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    app, it = FastAPI(), Endpoint()

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        it.requests.append(await request.json())
        answer = it.answers.pop(0)
        return answer if isinstance(answer, Response) else JSONResponse(answer)

    server = HttpServer(app, "127.0.0.1", 0)
    await server.start()
    it.url = f"http://127.0.0.1:{server.port}/v1"
    yield it
    await server.stop()


def user(endpoint: Endpoint, seed: int = 7) -> ModelUser:
    settings = UserModelSettings(
        url=endpoint.url, model="people", key="k", temperature=0.5, seconds=5
    )
    return ModelUser(UserModel(settings), "You are Ada. {context}", "My board is broken.", seed)


async def test_it_knows_its_context_and_what_was_said_and_nothing_else(endpoint: Endpoint):
    endpoint.answers = [message("It is O-1012."), message("<end>")]
    ada = user(endpoint)
    assert await ada.answer("Which order?") == "It is O-1012."
    assert await ada.answer("Done.") is None
    first, second = endpoint.requests
    assert "You are Ada. {context}" in first["messages"][0]["content"]
    assert [m["role"] for m in second["messages"]] == [
        "system", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert second["messages"][1]["content"] == "My board is broken."
    assert (first["seed"], first["temperature"], first["model"]) == (7, 0.5, "people")
    assert ada.tokens == 40


async def test_a_thought_is_not_said(endpoint: Endpoint):
    endpoint.answers = [message("<think>Hm.\n</think>\nYes.")]
    assert await user(endpoint).answer("Sure?") == "Yes."


async def test_a_busy_endpoint_is_asked_again(endpoint: Endpoint):
    endpoint.answers = [Response(status_code=503), Response(status_code=429), message("Yes.")]
    assert await user(endpoint).answer("Sure?") == "Yes."


@pytest.mark.parametrize(
    "answer",
    [
        Response(status_code=400),
        Response("<html>"),
        {"choices": []},
        {"error": "x"},
        message(None),
        message("  "),
        ["no object"],
    ],
)
async def test_what_is_no_message_is_the_users_failure(endpoint: Endpoint, answer: Any):
    endpoint.answers = [answer]
    with pytest.raises(UserModelError):
        await user(endpoint).answer("Sure?")
    assert len(endpoint.requests) == 1
