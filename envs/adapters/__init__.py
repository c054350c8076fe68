"""Tasks made of other tasks, and of other libraries' environments."""
