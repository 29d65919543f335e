"""Backends: the protocol in `base`, one folder per engine."""
