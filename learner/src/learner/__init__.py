"""The learner: takes scored groups, makes one GRPO step per batch, publishes weights."""
