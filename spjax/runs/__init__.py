"""A run folder as a record: what it says, how it is written and read; nothing here trains."""
