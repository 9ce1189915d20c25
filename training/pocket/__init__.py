"""Generates the conversations that pocket learns, trains it on them, and evaluates it."""
