"""Running, measuring and reporting: any method on any engine, one run directory each."""
