"""Run directories: configuration, metrics, checkpoints and log. The only code that knows file names."""
