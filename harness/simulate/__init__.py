"""Prediction without the hardware: a cost model and an acceptance model, labelled as such."""
