"""The `envfarm` command: starts the stack, checks the machine, proves tasks, shows what happened."""
