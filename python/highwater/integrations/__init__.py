"""Callbacks for training loops that are not one's own: `transformers` and `lightning`, each imported with its module only."""
