"""What is trained: on one device, with no rank in sight."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    adam=(),
    balance=("auxiliary_loss", "load_of", "updated_bias", "z_loss"),
    capacity=("Capacity",),
    dropout=("Dropout", "generators_of"),
    gpt=("GPT", "Block", "GPTConfig", "next_token_loss"),
    moe=("MoE", "MoEConfig"),
    moe_gpt=("MoEGPT", "routed", "specialisation", "visits_by_kind"),
    recomputation=("recompute",),
    router=("Choice", "Routing", "route"),
    text=("batch_of", "read_text"),
)
