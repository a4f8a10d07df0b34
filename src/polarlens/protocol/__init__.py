"""A run: configuration, plan, units of work, and the folder that holds the result."""
