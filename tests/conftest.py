"""Tests compute on the CPU, with one thread: two that share their cores with a browser spin at every barrier."""

import os

import torch

os.environ.setdefault("KVSCOPE_DEVICE", "cpu")  # tests marked gpu ask for the GPU themselves
torch.set_num_threads(1)
