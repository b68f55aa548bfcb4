"""vLLM's own Scheduler on the benchmark's workload, in a process of its own: one timed run for each line on stdin.

`python -m tests.benchmarks.vllm_scheduler` with a site-packages folder that holds vLLM 0.33 first in PYTHONPATH. A run
prints a line of JSON: mean CPU microseconds per step of schedule() + update_from_output(), steps, tokens, preemptions.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine import workload

# A configuration only: nothing is ever loaded from it.
_MODEL = {
    "architectures": ["OPTForCausalLM"], "model_type": "opt", "hidden_size": 64, "num_attention_heads": 4,
    "num_hidden_layers": 2, "ffn_dim": 128, "vocab_size": 1 << 20, "max_position_embeddings": 1 << 20,
    "word_embed_proj_dim": 64, "do_layer_norm_before": True, "activation_function": "relu", "bos_token_id": 2,
    "eos_token_id": 2, "pad_token_id": 1,
}  # fmt: skip
_ENVIRONMENT = {
    "VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class VllmRun:
    """One run of vLLM's scheduler; the counts say whether it made the decisions that we make."""

    us_per_step: float
    steps: int
    tokens: int
    preemptions: int


class VllmScheduler:
    """The process. Raises RuntimeError if vLLM cannot be imported from `site_packages`."""

    def __init__(self, site_packages: Path) -> None:
        paths = [str(site_packages.resolve()), str(Path.cwd())]
        environment = {**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(paths)}
        environment.pop("PYTHONHASHSEED", None)  # it would change the root of the hash chains
        self._process = subprocess.Popen(
            [sys.executable, "-m", __spec__.name if __name__ == "__main__" else __name__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip

    def run(self) -> VllmRun:
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # then there is no answer either
            print(file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("vLLM 0.33 and what it needs cannot be imported from the folder given by --vllm")
        return VllmRun(**json.loads(answer))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # vLLM prints
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(_MODEL))
        for _ in sys.stdin:
            print(json.dumps(_run(folder)), file=answers, flush=True)


def _run(model: str) -> dict[str, float]:
    scheduler, requests = _scheduler(model), _requests()
    specs = workload.make()
    scripts = {spec.id: spec.output or () for spec in specs}
    spent = step = steps = tokens = preemptions = arrived = 0
    gc.collect()
    gc.freeze()
    while arrived < len(specs) or scheduler.has_unfinished_requests():
        while arrived < len(specs) and specs[arrived].arrival_step <= step:
            scheduler.add_request(requests[arrived])
            arrived += 1
        step += 1
        if not scheduler.has_unfinished_requests():
            continue
        began = time.thread_time_ns()
        plan = scheduler.schedule()
        scheduled = time.thread_time_ns()
        output = _output(scheduler, plan, scripts)
        sampled = time.thread_time_ns()
        scheduler.update_from_output(plan, output)
        spent += scheduled - began + time.thread_time_ns() - sampled
        steps += 1
        tokens += plan.total_num_scheduled_tokens
        preemptions += len(plan.preempted_req_ids)
    gc.unfreeze()
    return {"us_per_step": spent / 1e3 / steps, "steps": steps, "tokens": tokens, "preemptions": preemptions}


def _scheduler(model: str) -> Any:
    import torch
    from vllm import config
    from vllm.v1.core.kv_cache_utils import init_none_hash
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.structured_output import StructuredOutputManager

    ours = workload.CONFIG
    init_none_hash(_hash_function())
    settings = config.SchedulerConfig(
        max_model_len=ours.model_len, is_encoder_decoder=False, max_num_seqs=ours.max_num_seqs,
        max_num_batched_tokens=ours.max_num_batched_tokens, enable_chunked_prefill=True, policy="fcfs",
        scheduler_reserve_full_isl=True, async_scheduling=False,
    )  # fmt: skip
    cache = config.CacheConfig(block_size=ours.block_size, enable_prefix_caching=True)
    whole = config.VllmConfig(
        model_config=config.ModelConfig(
            model=model, skip_tokenizer_init=True, dtype="float32", seed=0, max_model_len=ours.model_len
        ),
        scheduler_config=settings, cache_config=cache, device_config=config.DeviceConfig(device="cpu"),
    )  # fmt: skip
    layer = FullAttentionSpec(block_size=ours.block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    groups = [KVCacheGroupSpec(["layer"], layer)]
    blocks = KVCacheConfig(num_blocks=ours.num_blocks, kv_cache_tensors=[], kv_cache_groups=groups)
    cache.num_gpu_blocks = ours.num_blocks
    return Scheduler(
        vllm_config=whole, kv_cache_config=blocks, structured_output_manager=StructuredOutputManager(whole),
        block_size=ours.block_size, log_stats=False,
    )  # fmt: skip


def _hash_function() -> Any:
    from vllm.utils.hashing import get_hash_fn_by_name

    return get_hash_fn_by_name("sha256")


def _requests() -> list[Any]:
    """They hash their prompts when they are made: that is not timed, here or there."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher
    from vllm.v1.request import Request

    hasher = get_request_block_hasher(workload.BLOCK_SIZE, _hash_function())
    return [
        Request(
            request_id=spec.id, prompt_token_ids=list(spec.prompt), pooling_params=None, arrival_time=float(number),
            sampling_params=SamplingParams(max_tokens=spec.max_tokens, ignore_eos=True), block_hasher=hasher,
        )
        for number, spec in enumerate(workload.make())
    ]  # fmt: skip


def _output(scheduler: Any, plan: Any, scripts: dict[str, tuple[int, ...]]) -> Any:
    """What a model runner returns: a token for each request whose last known token was computed."""
    from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, ModelRunnerOutput

    names = list(plan.num_scheduled_tokens)
    if not names:
        return EMPTY_MODEL_RUNNER_OUTPUT
    requests = [scheduler.requests[name] for name in names]
    tokens = [
        [scripts[name][request.num_output_tokens]] if request.num_computed_tokens >= request.num_tokens else []
        for name, request in zip(names, requests, strict=True)
    ]
    places = {name: place for place, name in enumerate(names)}
    return ModelRunnerOutput(req_ids=names, req_id_to_index=places, sampled_token_ids=tokens)


if __name__ == "__main__":
    main()
