"""What is trained: on one device, with no rank in sight."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    dropout=("Dropout", "generators_of"),
    gpt=("GPT", "Block", "GPTConfig", "next_token_loss"),
    recomputation=("recompute",),
    text=("batch_of", "read_text"),
)
