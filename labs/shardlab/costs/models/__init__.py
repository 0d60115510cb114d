"""What is trained, as numbers: sizes, the models of papers and of files, parameters and FLOPs."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    file=("load_model",),
    flops=(
        "attention_core_flops",
        "layer_matmul_flops",
        "model_flops_per_token",
        "output_flops",
        "utilisation",
    ),
    model=("num_parameters",),
    zoo=("ZOO", "find_model"),
)
