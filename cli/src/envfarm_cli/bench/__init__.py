"""`envfarm bench`: figures of this machine, each beside its floor from the same run."""
