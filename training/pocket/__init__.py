"""Generates the conversations that pocket is trained on, trains it, and evaluates it."""
