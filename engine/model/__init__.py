"""The language model: a Llama-family forward pass over paged KV, its weights and its tokenizer."""
