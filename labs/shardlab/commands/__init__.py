"""The `shardlab` command: one module per subcommand, with the same name."""
