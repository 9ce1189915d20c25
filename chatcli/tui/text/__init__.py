"""Widths, wrapping and cutting, in terminal columns."""
