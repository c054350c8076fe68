"""Where the blocks of a sweep are worked on, if not in the process that was started."""
