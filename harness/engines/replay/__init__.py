"""Evaluates methods on recorded trees, step by step, without running a model."""
