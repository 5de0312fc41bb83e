"""The scripted policy over real HTTP, without an engine behind it."""

import json

import httpx
import pytest
from envfarm_common.http import HttpServer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from envfarm_cli.failure import BadInput
from envfarm_cli.script import Script
from envfarm_cli.scripted_policy import ConstantEngine, RealEngine, create_app

OPENING = "my board arrived broken"
GOLDEN = ["<tool_call>\n{}\n</tool_call>", "refunded"]


@pytest.fixture
def script(tmp_path) -> Script:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    plans = {"d/t": {"opening": OPENING, "plans": [GOLDEN, ["done"]]}}
    (tmp_path / "script.json").write_text(json.dumps({"tasks": plans}))
    return Script.load(tmp_path / "script.json", tmp_path / "tokenizer.json")


@pytest.fixture
async def client(script):
    server = HttpServer(create_app(script, ConstantEngine()), "127.0.0.1", 0)
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as made:
        yield made
    await server.stop()


def prompt(script: Script) -> list[int]:
    return script._tokenizer.encode(f"user\n{OPENING}").ids


def text(script: Script, ids: list[int]) -> str:
    return script._tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize(
    ("request_id", "said"),
    [
        ("j.0.0.s0.a1.t0", GOLDEN[0]),
        ("j.0.0.s2.a9.t1", GOLDEN[1]),
        ("j.0.0.s2.a1.t7", GOLDEN[1]),
        ("j.0.0.s1.a1.t0", "done"),
        ("j.0.0.s3.a1.t5", "done"),
    ],
)
def test_the_slot_chooses_the_plan_and_the_turn_its_text(script, request_id, said):
    ids = script.answer(request_id, prompt(script))
    assert ids is not None
    assert text(script, ids) == f"{said}<|im_end|>"


def test_a_prompt_of_no_known_task_is_refused(script):
    with pytest.raises(BadInput, match="opening of no task"):
        script.answer("j.0.0.s0.a1.t0", script._tokenizer.encode("hello").ids)


async def test_a_generation_has_ids_logprobs_and_versions_of_one_length(client, script):
    body = {
        "request_id": "j.0.0.s1.a1.t0",
        "token_ids": prompt(script),
        "sampling_params": {"max_tokens": 100},
    }
    answer = (await client.post("/inference/v1/generate", json=body)).json()
    choice = answer["choices"][0]
    assert text(script, choice["token_ids"]) == "done<|im_end|>"
    assert choice["finish_reason"] == "stop"
    content = choice["logprobs"]["content"]
    assert [entry["token_id"] for entry in content] == choice["token_ids"]
    assert {entry["logprob"] for entry in content} == {-1.0}
    assert choice["weight_versions"] == [{"version": "default", "start": 0, "end": 5}]


async def test_a_generation_is_cut_at_its_limit_and_says_so(client, script):
    body = {
        "request_id": "j.0.0.s1.a1.t0",
        "token_ids": prompt(script),
        "sampling_params": {"max_tokens": 2},
    }
    choice = (await client.post("/inference/v1/generate", json=body)).json()["choices"][0]
    assert text(script, choice["token_ids"]) == "do"
    assert choice["finish_reason"] == "length"


async def test_new_weights_give_tokens_their_label(client, script, tmp_path):
    assert (await client.post("/pause?mode=wait")).status_code == 200
    assert (await client.get("/is_paused")).json() == {"is_paused": True}
    load = {"method": "reload_weights", "kwargs": {"weights_path": str(tmp_path)}}
    assert (await client.post("/collective_rpc", json=load)).status_code == 200
    assert (await client.post("/reset_prefix_cache")).json() == {"success": True}
    await client.post("/update_weight_version", json={"new_version": "1:abc"})
    await client.post("/resume")
    body = {
        "request_id": "j.0.0.s1.a1.t0",
        "token_ids": prompt(script),
        "sampling_params": {"max_tokens": 9},
    }
    choice = (await client.post("/inference/v1/generate", json=body)).json()["choices"][0]
    assert choice["weight_versions"][0]["version"] == "1:abc"


async def test_weights_that_are_not_there_are_refused(client):
    load = {"method": "reload_weights", "kwargs": {"weights_path": "/nowhere/at/all"}}
    assert (await client.post("/collective_rpc", json=load)).status_code == 500


async def test_a_probe_gets_a_logprob_for_every_prompt_token(client):
    body = {"request_id": "probe", "token_ids": [5, 6, 7], "sampling_params": {"max_tokens": 1}}
    rows = (await client.post("/inference/v1/generate", json=body)).json()["prompt_logprobs"]
    assert rows[0] is None
    assert [row[str(token)]["logprob"] for row, token in zip(rows[1:], [6, 7], strict=True)] == [
        -1.0,
        -1.0,
    ]


async def test_a_dead_engine_is_a_gateway_error(script):
    server = HttpServer(create_app(script, RealEngine("http://127.0.0.1:9")), "127.0.0.1", 0)
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as client:
        answer = await client.get("/health")
    await server.stop()
    assert answer.status_code == 502
    assert "the engine does not answer" in answer.json()["error"]["message"]
