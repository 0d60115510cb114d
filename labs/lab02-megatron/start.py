"""Import Megatron without its warnings."""

import os
import sys
import warnings


def import_megatron() -> str:
    """Import megatron-core without its warnings (no Transformer Engine, no Apex) and return its version.

    Raises ImportError with the command that installs it.
    """
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")  # Megatron's layers require it
    warnings.filterwarnings("ignore", module="megatron")
    warnings.filterwarnings(
        "ignore", "`torch.distributed.*is deprecated", FutureWarning
    )  # it uses old names of collectives
    try:
        import megatron.core
        import megatron.core.pipeline_parallel
        import megatron.core.tensor_parallel
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("megatron"):
            raise
        raise ImportError(
            f"megatron-core is not installed in {sys.prefix}, this Python's environment: run "
            f"PYTHON={sys.executable} labs/lab02-megatron/setup_environment.sh"
        ) from None
    return megatron.core.__version__
