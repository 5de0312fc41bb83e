"""A policy small enough to learn on two CPU cores: `python -m learner.tiny_model`.

Trains a byte-level BPE on the given texts, in which every digit is its own token, and builds a
Qwen3 model from a config with seeded random weights, which --copying-steps teaches to copy. The
folder is what `transformers` and vLLM load: config.json, model.safetensors, tokenizer.json,
tokenizer_config.json. Equal texts, seed and library versions give equal files.
"""

import argparse
import sys
from contextlib import redirect_stdout
from pathlib import Path

import torch
from envfarm.errors import ConfigError
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

# transformers imports DeepSpeed, whose logger keeps the stdout that it finds at import.
with redirect_stdout(sys.stderr):
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
    from transformers.utils.logging import disable_progress_bar

    from learner import copying

VOCABULARY = 512
ROPE_THETA = 10_000.0
"""Conversations are short; transformers' own default spreads positions over a million."""
ATTENTION_SHARPNESS = 1.4
"""First weight of the query and key norms: from 1.0 it takes the model long to look at one place."""
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Special tokens: the chat format's own; text that is not ours never encodes to them."""
MARKS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
"""Added tokens that stay visible in decoded text, as in Qwen's tokenizers."""

# Letters with a leading space unless digits follow (an id is the same tokens wherever it stands),
# single digits, punctuation runs, spaces.
SPLIT = r" ?\p{L}+(?![\p{L}\p{N}])|\p{L}+|\d| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def train_tokenizer(texts: list[str], vocabulary: int = VOCABULARY) -> Tokenizer:
    """A byte-level BPE of at most `vocabulary` entries, added tokens included."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # pyright: ignore[reportAttributeAccessIssue]
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(CONTROL) - len(MARKS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in CONTROL])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MARKS])
    return tokenizer


def build_model(tokenizer: Tokenizer, seed: int) -> Qwen3ForCausalLM:
    """Four layers, hidden size 128, float32, weights from `seed`."""
    config = Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=16384,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        # vLLM's CPU build keeps the old packed output layer of tied weights after a reload.
        tie_word_embeddings=False,
        use_cache=True,
        dtype=torch.float32,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
    )
    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(config)
    for name, weight in model.named_parameters():
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            torch.nn.init.constant_(weight, ATTENTION_SHARPNESS)
    return model


def write(
    out: Path,
    texts: list[str],
    seed: int,
    vocabulary: int = VOCABULARY,
    copying_steps: int = 0,
) -> None:
    """Write the model folder; existing files of those names are replaced."""
    out.mkdir(parents=True, exist_ok=True)
    trained = train_tokenizer(texts, vocabulary)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=trained,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        clean_up_tokenization_spaces=False,
        model_max_length=16384,
    )
    tokenizer.save_pretrained(out)
    disable_progress_bar()
    model = build_model(trained, seed)
    known = (trained.token_to_id(letter) for letter in copying.ALPHABET)
    copying.teach_copying(
        model, [token for token in known if token is not None], copying_steps, seed
    )
    model.save_pretrained(out, safe_serialization=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m learner.tiny_model", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="texts to train on")
    parser.add_argument("--seed", type=int, required=True, help="seed of the weights")
    parser.add_argument(
        "--vocabulary", type=int, default=VOCABULARY, help="most entries of the tokenizer"
    )
    parser.add_argument(
        "--copying-steps",
        type=int,
        default=0,
        help="steps that teach the model to copy; 300 take half a minute on two cores",
    )
    options = parser.parse_args(arguments)
    # Equal files whatever the number of cores; more than one gains nothing at this size.
    torch.set_num_threads(1)
    try:
        texts = []
        for path in options.text:
            try:
                texts.append(path.read_text())
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"cannot read the text {path}: {error}") from error
        try:
            write(options.out, texts, options.seed, options.vocabulary, options.copying_steps)
        except OSError as error:
            raise ConfigError(f"cannot write {options.out}: {error}") from error
    except ConfigError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
