"""The `slipstream` command: one file for each subcommand."""
