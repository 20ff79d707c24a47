"""Backups of a data folder, and bringing them back."""
