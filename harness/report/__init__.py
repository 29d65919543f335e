"""Tables and figures, drawn from run directories only."""
