"""A run, or several, as one HTML file to open, send and archive; nothing here needs JAX but rollouts."""
