"""Decoding that is simulated: the real selection on drawn trees, priced by a cost model."""
