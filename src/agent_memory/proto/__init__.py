"""Generated from proto/*.proto by `make proto`; nothing here is written by hand."""
