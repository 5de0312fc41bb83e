"""Rows shared out to ranks (Ulysses), MLPs in pieces, activations and optimizer in main memory: the
same updates as one process that does none of it.

In float64 over three updates the losses, gradient norms and weights agree to 1e-10; linear attention
and ZeRO 3 compute in float32: 1e-4 and 1e-5.
"""

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, Qwen2Config
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

from tests.support import exact_case
from tests.support.proof import write_proof
from tests.support.rank_runs import WIDE, case, run

pytestmark = [pytest.mark.prove, pytest.mark.timeout(1500)]

DOUBLE = {"model.dtype": "float64"}
SHARED = {"model.sequence_parallel": 2}
FRUGAL = {
    "model.gradient_checkpointing": "true",
    "model.offload_activations": "true",
    "model.mlp_tiles": 3,
}
SIZES = {
    "vocab_size": exact_case.VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
    "tie_word_embeddings": False,
    "max_position_embeddings": 8192,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch.manual_seed(3)
    made = {
        "qwen3": exact_case.qwen3(),
        "qwen2": Qwen2ForCausalLM(Qwen2Config(**SIZES)),
        "llama": LlamaForCausalLM(LlamaConfig(**SIZES)),
        "hybrid": exact_case.hybrid(),
        "wide": exact_case.qwen3(vocabulary=WIDE),
    }
    return {
        name: exact_case.save(model, tmp_path_factory.mktemp(name)) for name, model in made.items()
    }


def cases(models: dict[str, Path], **settings) -> list[dict]:
    """qwen3 has two heads and one key head, which then stands on both ranks."""
    layouts = ("packed", "shared", "padded")
    return [
        *(
            case(
                f"qwen3-{layout}", models["qwen3"], **DOUBLE, **{"batch.layout": layout}, **settings
            )
            for layout in layouts
        ),
        case("qwen2", models["qwen2"], **settings),
        case("llama", models["llama"], **settings),
        case("hybrid", models["hybrid"], **{"batch.layout": "padded"}, **settings),
    ]


TOLERANCES = {"qwen3-packed": 1e-10, "qwen3-shared": 1e-10, "qwen3-padded": 1e-10}
"""Of losses and norms, relative; the others compute in float32."""


def gap(found: tuple[dict, dict], wanted: tuple[dict, dict]) -> float:
    """Largest relative difference of a loss or a gradient norm over the updates."""
    steps = zip(found[0]["losses"], wanted[0]["losses"], strict=True)
    return max(
        abs(a - b) / abs(b) for ours, theirs in steps for a, b in zip(ours, theirs, strict=True)
    )


def test_two_ranks_that_share_rows_are_one_process(models: dict[str, Path], tmp_path: Path):
    alone = run(cases(models), 1, tmp_path / "alone")
    shared = run(cases(models, **SHARED, **FRUGAL), 2, tmp_path / "shared")
    gaps = {name: gap(shared[name], alone[name]) for name in alone}
    for name, found in gaps.items():
        assert found < TOLERANCES.get(name, 1e-4), name
        probes = (torch.tensor(runs[name][0]["probe"]) for runs in (shared, alone))
        assert torch.allclose(*probes, atol=1e-4), name
        for key, value in alone[name][0]["figures"].items():
            assert shared[name][0]["figures"][key] == pytest.approx(value, rel=1e-3, abs=1e-6)
    write_proof("long-sequences-two-ranks", {"largest_relative_gap": gaps})


def test_four_processes_with_zero_3_sequence_parallelism_and_offload_are_one_process(
    models: dict[str, Path], tmp_path: Path
):
    """Two shares of the batch, two ranks a share; parameters, optimizer and activations in main
    memory, logits and MLPs in pieces."""
    tiles = {"batch.logits_at_once": 7 * WIDE}
    sharded = {"model.zero_stage": 3, "model.offload": "all", **tiles}
    plain = run([case("plain", models["wide"], **tiles)], 1, tmp_path / "plain")["plain"]
    found = run(
        [
            case("sharded", models["wide"], **sharded, **SHARED, **FRUGAL),
            case(
                "hybrid",
                models["hybrid"],
                **{"batch.layout": "padded"},
                **sharded,
                **SHARED,
                **FRUGAL,
            ),
        ],
        4,
        tmp_path / "four",
    )
    hybrid = run(
        [case("hybrid", models["hybrid"], **{"batch.layout": "padded"}, **tiles)],
        1,
        tmp_path / "hybrid",
    )["hybrid"]
    gaps = {"qwen3": gap(found["sharded"], plain), "hybrid": gap(found["hybrid"], hybrid)}
    assert gaps["qwen3"] < 1e-5
    assert gaps["hybrid"] < 1e-4
    for name, tensor in found["sharded"][1].items():
        assert torch.allclose(tensor, plain[1][name], rtol=1e-5, atol=1e-6), name
    write_proof("long-sequences-four-ranks", {"largest_relative_gap": gaps})
