"""What computes: paged attention and KV write, one Triton source each plus a torch twin. Knows tensors only."""
