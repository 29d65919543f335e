"""The embedded engine: Qwen3-MoE targets and EAGLE-3 heads in plain PyTorch, batch 1."""
