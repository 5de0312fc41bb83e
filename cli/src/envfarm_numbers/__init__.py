"""Numbers that people act on: pure functions from attempt rows, task files and manifests to figures.

rows → counts → estimators, paired, jeffreys → selection, comparison, ledger → report. Nothing here
talks to a service. Every estimator is defined in docs/numbers.md.
"""
