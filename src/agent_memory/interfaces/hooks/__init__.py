"""Hooks of agents: what they send, and the answers that belong to it."""
