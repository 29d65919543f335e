"""Careless variants of the code, one or more per public fault, and proof that tests see them."""
