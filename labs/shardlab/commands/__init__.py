"""The command `shardlab`: one module for each of its subcommands, named as it is."""
