"""One compute thread: two that share their cores with a browser or another test spin at every barrier."""

import torch

torch.set_num_threads(1)
