"""The pictures that only the paper needs."""
