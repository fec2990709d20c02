"""Callbacks for the training loops of `transformers` and `lightning`; each is imported only with its own module."""
