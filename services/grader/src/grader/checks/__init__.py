"""The kinds of checks, one a file. Each answers with a CheckResult or raises CannotRun."""
