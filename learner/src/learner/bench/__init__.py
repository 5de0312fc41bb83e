"""`python -m learner.bench`: the learner beside the bare model, on this machine."""
