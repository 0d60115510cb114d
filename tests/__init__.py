"""A package, so that pytest keeps this folder off the import path, where tests/shardlab would shadow shardlab."""
