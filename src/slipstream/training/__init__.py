"""Training: the only code that joins worlds, algorithms and run directories."""
