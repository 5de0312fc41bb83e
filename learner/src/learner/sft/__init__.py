"""Supervised training on recorded rollouts: the same masks, packing and optimizer as GRPO."""
