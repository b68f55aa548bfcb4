"""What decides: blocks, prefix caches, scheduler, model runner, metrics. Runs headless; imports only kernels."""
