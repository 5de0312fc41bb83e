"""The configuration: what is refused, and that the recipe's hash means the recipe."""

from pathlib import Path

import pytest
from envfarm.errors import ConfigError
from envfarm.sampling import Sampling

from learner.config import load

CONFIGS = Path(__file__).parents[3] / "learner/configs"
TINY = CONFIGS / "tiny-cpu.toml"


def test_the_reference_recipe_says_what_it_must():
    config = load(CONFIGS / "reference-q38-24xh100.toml", [])
    assert (config.algorithm.clip_low, config.algorithm.clip_high) == (0.2, 0.2)
    assert (config.optimizer.lr, config.optimizer.betas) == (1e-6, (0.9, 0.999))
    assert (config.optimizer.weight_decay, config.optimizer.grad_norm) == (0.0, 1.0)
    assert (config.batch.groups_per_update, config.batch.group_size) == (18, 8)
    assert (config.run.updates, config.run.checkpoint_every) == (50, 5)
    assert (config.sampling.temperature, config.sampling.top_k, config.sampling.top_p) == (
        1.0,
        20,
        0.95,
    )


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("algorithm.cilp_low=0.2", "algorithm.cilp_low: Extra inputs are not permitted"),
        ("nothing=1", "nothing: Extra inputs"),
        ("algorithm.surrogate=gspo", "aggregation must be sequence_mean"),
        ("admission.staleness=5", "admission.staleness"),
        ("model.zero_stage=4", "model.zero_stage"),
        ("model.dtype=float16", "model.dtype"),
        ("batch.group_size=1", "batch.group_size"),
        ("batch.layout=loose", "batch.layout"),
        ("sampling.max_response_tokens=8192", "above model.max_tokens"),
        ("sampling.max_turn_tokens=5000", "sampling.max_turn_tokens is above"),
        ("run.checkpoint_every=100", "stream.retained_groups is 64"),
        ("run.keep_weights=2", "run.keep_weights must be at least"),
        ("publish.every=2", "run.checkpoint_every must be a multiple of publish.every"),
        ("stream.store=dir", "stream.store_dir"),
        ("optimizer.betas=[0.9, 1.0]", "betas must lie in [0, 1)"),
        ("optimizer.lr=nan", "optimizer.lr"),
        ("run.id=a b", "run.id"),
        ("model.dtype=bfloat16", "needs zero_stage 1, 2 or 3"),
        ("model.offload=optimizer", "needs zero_stage 1, 2 or 3"),
        ("model.offload=all", "needs zero_stage 3"),
        ("model.offload_activations=true", "offload_activations needs gradient_checkpointing"),
        ("model.sequence_parallel=0", "model.sequence_parallel"),
        ("run", "write it as section.key=value"),
        ("seed.x=1", "seed is not a section"),
    ],
)
def test_a_wrong_key_is_refused_by_name(override: str, words: str):
    with pytest.raises(ConfigError) as caught:
        load(TINY, [override])
    assert words in caught.value.message


def test_staleness_zero_needs_a_publication_after_each_update():
    with pytest.raises(ConfigError, match=r"staleness 0 needs publish\.every 1"):
        load(TINY, ["admission.staleness=0", "publish.every=2", "run.checkpoint_every=2"])


def test_the_hash_of_how_to_sample_is_the_one_that_a_gateway_writes_into_trajectories():
    ours = load(TINY, []).sampling
    assert ours.hash == Sampling(temperature=1.0, top_k=20, top_p=0.95).hash
    for change in ("temperature=0.9", "top_k=0", "top_p=1.0"):
        assert load(TINY, [f"sampling.{change}"]).sampling.hash != ours.hash


@pytest.mark.parametrize("truncation", ["top_k=20", "top_p=0.95", "temperature=0.9"])
def test_a_correction_needs_what_was_sampled_from_untouched(truncation: str):
    tis = ["algorithm.correction=tis", "algorithm.correction_high=2.0"]
    plain = ["sampling.top_k=0", "sampling.top_p=1.0"]
    assert load(TINY, [*tis, *plain]).algorithm.correction == "tis"
    with pytest.raises(ConfigError, match=r"'tis' needs sampling\.temperature 1"):
        load(TINY, [*tis, *plain, f"sampling.{truncation}"])


def test_a_preset_is_hashed_by_what_it_stands_for(tmp_path: Path):
    text = TINY.read_text()
    start, end = text.index("[algorithm]"), text.index("[optimizer]")
    (tmp_path / "c.toml").write_text(
        text[:start] + '[algorithm]\npreset = "reference"\n\n' + text[end:]
    )
    assert load(tmp_path / "c.toml", []).recipe_hash() == load(TINY, []).recipe_hash()
    dapo = load(tmp_path / "c.toml", ["algorithm.preset=dapo"])
    assert (dapo.algorithm.clip_high, dapo.algorithm.overlong) == (0.28, "mask")
    assert "clip_high=0.28" in dapo.described()


def test_a_missing_recipe_key_has_no_default(tmp_path: Path):
    text = TINY.read_text().replace("clip_high = 0.2\n", "")
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"algorithm\.clip_high: Field required"):
        load(tmp_path / "c.toml", [])


def test_a_malformed_file_is_named_with_its_line(tmp_path: Path):
    (tmp_path / "c.toml").write_text("seed = 1\n[run\n")
    with pytest.raises(ConfigError, match=r"c\.toml.*line 2"):
        load(tmp_path / "c.toml", [])


def test_the_recipe_hash_changes_with_the_recipe_and_not_with_places():
    plain = load(TINY, []).recipe_hash()
    assert load(TINY, ["run.dir=/elsewhere", "run.updates=7"]).recipe_hash() == plain
    for override in (
        "algorithm.clip_high=0.28",
        "sampling.top_k=10",
        "seed=1",
        "optimizer.lr=1e-5",
        "schedule.warmup_steps=3",
    ):
        assert load(TINY, [override]).recipe_hash() != plain


def test_a_rate_that_falls_to_the_end_makes_the_end_a_part_of_the_recipe():
    falling = ["schedule.kind=linear", "schedule.warmup_steps=2", "run.updates=10"]
    config = load(TINY, falling)
    assert config.recipe_hash() != load(TINY, [*falling, "run.updates=11"]).recipe_hash()
    rates = [config.learning_rate(update) / config.optimizer.lr for update in (0, 1, 2, 6, 9)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.5, 0.125])


def test_an_override_may_hold_text_numbers_and_lists():
    config = load(TINY, ["run.dir=some/where", "optimizer.betas=[0.8, 0.9]", "seed=7"])
    assert (config.run.dir, config.optimizer.betas, config.seed) == (
        Path("some/where"),
        (0.8, 0.9),
        7,
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:s3cret@127.0.0.1:6379/0", "redis://:***@127.0.0.1:6379/0"),
        ("rediss://user:s3cret@host/1", "rediss://user:***@host/1"),
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_the_written_configuration_holds_no_password(url: str, shown: str):
    config = load(TINY, [f"stream.redis_url={url}"])
    assert config.stream.redis_url == url
    assert config.model_dump(mode="json")["stream"]["redis_url"] == shown
