"""Proving tasks: the golden run, the empty run, and the fixed catalogue of mutants."""
