"""What a run needs, computed before it is started: `python -m learner plan`."""
