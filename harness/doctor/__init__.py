"""Whether this machine is fit to measure: `python -m harness.doctor`, one screen, no torch."""
