"""Statistics, tables and pictures of any run, from run folders alone; nothing here needs JAX."""
