"""What the machine did while something was measured: samples, energy, and what they add up to."""
