"""Models as numbers: sizes, models from papers and files, parameters and FLOPs."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.costs.models.flops import (
        attention_core_flops,
        layer_matmul_flops,
        model_flops_per_token,
        output_flops,
        utilisation,
    )
    from shardlab.costs.models.model import num_parameters
    from shardlab.costs.models.zoo import find_model
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
