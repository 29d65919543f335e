"""Procedures that drive any engine to learn what a step costs and how far draft scores hold."""
