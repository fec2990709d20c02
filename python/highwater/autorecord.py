"""Recording without a change of code."""
