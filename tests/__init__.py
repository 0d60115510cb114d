"""A package only so that pytest leaves this folder off the import path, where tests/shardlab would hide shardlab."""
