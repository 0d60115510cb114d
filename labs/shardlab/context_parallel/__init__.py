"""Every rank has a part of each sequence: who has which tokens, and four ways to the keys of the others."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    attention=("attend", "check_positions", "check_same_call"),
    balance=("SequenceLayout", "contiguous", "in_order", "own_part", "striped", "zigzag"),
    emulated=("over_link",),
    gathered=("Gathered",),
    gpt=("set_mask", "split_attention"),
    mask=("CAUSAL", "FULL", "Mask"),
    ring=("Ring",),
    training=("next_tokens", "split_batch", "sum_gradients", "valid_token_loss"),
    two_level=("TwoLevel", "two_level_groups"),
    ulysses=("Ulysses",),
)
