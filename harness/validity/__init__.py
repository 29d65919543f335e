"""Whether a number may be published: verdicts on runs and on comparisons, from files alone."""
