"""The two model families the tests serve; SGLANG_EXTERNAL_MODEL_PACKAGE names this package.

SGLang then imports its other built-in models only on demand: a start is seconds shorter.
"""
