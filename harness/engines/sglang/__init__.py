"""SGLang as an engine: its server runs as a process of its own, this side imports no sglang."""
