"""The grader: final database state in, verdict out. `verdict.py` decides the reward."""
