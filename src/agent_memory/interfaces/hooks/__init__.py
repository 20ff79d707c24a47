"""Hooks: the inputs that agents send, and the answers they get."""
