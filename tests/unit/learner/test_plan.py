"""The plan: counts that are transformers' own, sums by hand, DeepSpeed's estimates, every refusal."""

import json
from pathlib import Path

import pytest
import torch
from envfarm.errors import ConfigError
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Qwen2Config,
    Qwen3_5TextConfig,
    Qwen3Config,
)

from learner.config import load
from learner.plan import shape as shapes
from learner.plan.report import report
from tests.support import exact_case

CONFIGS = Path(__file__).parents[3] / "learner/configs"
REFERENCE = CONFIGS / "reference-q38-24xh100.toml"
SHAPE = CONFIGS / "shapes/qwen3.8-27b.json"
GIB = 2**30


def plan(*overrides: str) -> dict:
    return report(load(REFERENCE, list(overrides)), CONFIGS)


def chosen(*overrides: str) -> dict:
    return plan(*overrides)["chosen"]


SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SIZES, tie_word_embeddings=False),
        Qwen2Config(**{**SIZES, "head_dim": 8}, tie_word_embeddings=True),
        Qwen3Config(**SIZES, tie_word_embeddings=False),
        exact_case.hybrid().config,
        Qwen3_5TextConfig(**{k: v for k, v in json.loads(SHAPE.read_text()).items()}),
    ],
    ids=lambda config: f"{config.model_type}-{config.hidden_size}",
)
def test_parameters_are_those_of_the_model_that_transformers_makes(config, tmp_path: Path):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    config.save_pretrained(tmp_path)
    found = shapes.read(tmp_path)
    assert found.parameters == sum(p.numel() for p in model.parameters())


def test_the_reference_model_by_hand():
    found = shapes.read(SHAPE)
    mlp = 3 * 5120 * 17408
    full = 5120 * (2 * 6144 + 2 * 1024) + 6144 * 5120 + 2 * 256
    linear = 5120 * (10240 + 6144 + 96) + 10240 * 4 + 96 + 128 + 6144 * 5120
    layers = 16 * full + 48 * linear + 64 * (mlp + 2 * 5120)
    assert found.parameters == layers + 5120 + 2 * 248320 * 5120 == 26_895_998_464


def test_the_reference_run_fits_24_gpus_of_80_gb():
    found = plan()
    assert found["ok"]
    assert found["chosen"]["gpu_bytes"] < (79.6 - 5.0) * GIB
    assert (found["chosen"]["learner_gpus"], found["chosen"]["engine_gpus"]) == (16, 8)


def test_memory_of_the_reference_run_by_hand():
    found, share = chosen(), -(-26_895_998_464 // 16)
    gpu = found["learner"]["gpu"]
    assert (gpu["weights"], gpu["gradients"], gpu["optimizer"]) == (
        2 * share,
        2 * share,
        12 * share,
    )
    assert gpu["bucket"] == 2 * 500_000_000
    assert gpu["gathered"] == 2 * (1_000_000_000 + 248320 * 5120)
    assert gpu["step"] == 4 * 1_000_000_000
    # 33,280 positions a rank; H, the delta rule's values, a piece of the MLP; twice, 2 bytes each.
    values = 4 * 5120 + 2 * 10240 + 2 * (2 * 48 * 128 + 6144) + 3 * 6144 + 4 * 17408 // 8
    assert gpu["layer"] == 2 * 2 * 33_280 * values + 2 * 2 * 33_280 * 5120
    assert gpu["logits"] == 1081 * 248320 * (4 + 12)
    assert found["learner"]["host"] == {"activations": 8 * 2 * 33_280 * 5120 * 64}
    engine = found["engine"]
    assert engine["kv_bytes_per_token"] == 2 * 2 * 4 * 256 * 16
    cache = int(79.6 * 0.85 * GIB) - 26_895_998_464 // 2 - 4 * GIB
    assert engine["gpu"]["kv_cache"] == cache
    assert engine["state_bytes"] == 48 * 48 * 128 * 128 * 4
    assert engine["longest_at_once"] == 4 * cache // (65_536 * 133_120 + engine["state_bytes"])


def test_times_of_the_reference_run_by_hand():
    found = chosen()
    step, rollout, sent = found["step"], found["rollout"], found["publication"]
    token = 2 * (26_895_998_464 - 248320 * 5120)  # the input embedding is looked up
    token += 2 * (32_000 * 4 / 3) * 6144 * 16 + 6 * 48 * 128 * 128 * 48
    operations = 144 * 32_000 * (4 * token + 2 * 3 * 5120 * 17408 * 64)
    assert step["operations"] == pytest.approx(operations)
    assert step["compute"] == pytest.approx(operations / (16 * 989e12 * 0.4))
    assert step["micro_batches"] == 9  # 36 lines a share, 4 at once
    assert step["gathering"] == pytest.approx(9 * 3 * 2 * 26_895_998_464 * 15 / 16 / 50e9)
    assert rollout["attempts"] == 192  # 144 / 0.75
    busy = 192 * 14_000 / (8 * 600) + 192 * (6000 / 8 + 12_000) / (8 * 5000)
    assert rollout["busy"] == pytest.approx(busy)
    assert rollout["longest"] == pytest.approx(40_000 / 50 + 25 * 2)
    assert sent["collective"] == pytest.approx(2 * 26_895_998_464 / 50e9)
    assert found["period"] == pytest.approx(850 + sent["collective"])
    assert found["cost"] == pytest.approx(50 * found["period"] / 3600 * 24 * 2.5)


@pytest.mark.parametrize(("gpus", "nodes"), [(8, 1), (16, 2), (24, 3)])
def test_states_are_within_a_tenth_of_deepspeeds_estimate(gpus: int, nodes: int):
    """DeepSpeed counts neither the bucket nor what is fetched ahead."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as estimate

    found = shapes.read(SHAPE)
    layout = ["cluster.gpus=32", f"cluster.learner_gpus={gpus}"]

    def ours(offload: str) -> dict[str, int]:
        return chosen(*layout, f"model.offload={offload}")["learner"]["gpu"]

    def theirs(optimizer: bool, parameters: bool) -> int:
        return estimate(
            found.parameters,
            found.largest_layer,
            num_gpus_per_node=8,
            num_nodes=nodes,
            cpu_offload=optimizer,
            cpu_offload_params=parameters,
        )[1]

    largest = 4 * found.largest_layer
    states = sum(ours("none")[name] for name in ("weights", "gradients", "optimizer", "step"))
    assert states + largest == pytest.approx(theirs(False, False), rel=0.1)
    assert ours("optimizer")["weights"] + largest == pytest.approx(theirs(True, False), rel=0.1)
    assert "weights" not in ours("all")
    assert theirs(True, True) == largest


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["model.sequence_parallel=5"], "16 learner GPUs cannot be divided into groups of 5"),
        (["model.sequence_parallel=16"], "groups of 16 GPUs that share rows do not fit nodes of 8"),
        (["model.sequence_parallel=16"], "24 attention heads cannot be divided among 16 ranks"),
        (["cluster.learner_gpus=18"], "6 engine GPUs cannot be divided into engines of 4"),
        (["cluster.learner_gpus=24"], "24 GPUs leave none for engines"),
        (["cluster.engines.tensor_parallel=5"], "tensor_parallel 5: 24 attention heads cannot"),
        (["batch.layout=packed"], "\"packed\" leaks between lines in 'qwen3_5_text'"),
        (["model.max_tokens=300000"], "the model knows 262144 positions"),
        (["cluster.learner_gpus=8"], "the learner needs 79.0 GiB on a GPU that has 74.6"),
        (["model.offload_activations=false", "cluster.gpu_memory_gib=64"], "most of it is activ"),
        (["cluster.gpu_memory_gib=40"], "each rank loads the whole model first: 50.1 GiB"),
        (["cluster.node_memory_gib=300"], "a node needs 401 GiB of main memory and has 300"),
        (["cluster.engines.memory_share=0.2"], "leave -0.6 GiB of a GPU for its KV cache"),
        (["cluster.engines.memory_share=0.22"], "holds no attempt of 133120 tokens (65536 bytes"),
        (["cluster.engines.decode_tokens_per_second=9000"], "but a GPU's memory bandwidth allows"),
        (["gateway.announce_seconds=1"], "a publication takes 1 s, gateway.announce_seconds is 1"),
        (["cluster.layout=time_shared"], "an engine that is awake takes 67.7 GiB beside"),
    ],
)
def test_what_cannot_work_is_refused_with_the_number_that_breaks(overrides, words):
    found = plan(*overrides)
    assert not found["ok"]
    assert any(words in sentence for sentence in found["chosen"]["refusals"]), found["chosen"][
        "refusals"
    ]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["cluster.gpus=20"], "20 GPUs do not fill nodes of 8"),
        (["cluster.learner_gpus=25"], "1 to 24, not 25"),
        (["cluster.shape=nowhere.json"], "cannot read the model's configuration"),
    ],
)
def test_what_is_no_plan_at_all_is_an_error(overrides, words):
    with pytest.raises(ConfigError, match=words):
        plan(*overrides)


def test_without_a_cluster_there_is_nothing_to_plan_for():
    with pytest.raises(ConfigError, match=r"no \[cluster\] section"):
        report(load(CONFIGS / "tiny-cpu.toml", []), CONFIGS)


def test_time_sharing_is_laid_out_beside_every_division_that_cuts_no_engine():
    found = plan()
    names = [(one["kind"], one["learner_gpus"]) for one in found["layouts"]]
    assert names == [("time_shared", 24)] + [("disaggregated", n) for n in (4, 8, 12, 16, 20)]
    assert not found["layouts"][0]["refusals"]
    assert found["layouts"][0]["offload"] == "all"


def test_a_delta_pays_when_the_network_is_slow():
    assert not plan()["delta_pays"]
    assert plan("cluster.network_gb_per_second=1")["delta_pays"]
