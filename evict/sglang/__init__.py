"""EVICT inside SGLang, out of tree: an entry point registers the algorithm `EVICT`."""
