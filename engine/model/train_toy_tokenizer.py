"""Make `toy_tokenizer.json` from `toy_corpus.txt`: `python -m engine.model.train_toy_tokenizer`.

The result is committed; run this again only if the corpus changes (scenarios that name toy token ids change with it).
"""

from __future__ import annotations

from pathlib import Path

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 1024
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


def train(corpus: Path) -> tokenizers.Tokenizer:
    """A byte-level BPE with single digits, the same kind SmolLM2 has, trained on the lines of `corpus`."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        min_frequency=1,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in SPECIAL_TOKENS],
    )
    tokenizer.train_from_iterator(corpus.read_text(encoding="utf-8").splitlines(), trainer)
    return tokenizer


def main() -> None:
    """Write the tokenizer beside this file."""
    here = Path(__file__).parent
    train(here / "toy_corpus.txt").save(str(here / "toy_tokenizer.json"), pretty=False)


if __name__ == "__main__":
    main()
