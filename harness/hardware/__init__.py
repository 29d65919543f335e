"""What this machine is and how it is doing: processor, GPUs, and who else is using them."""
