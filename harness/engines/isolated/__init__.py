"""An engine in a process group of its own, so that its crash or hang ends one cell only."""
