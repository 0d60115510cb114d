"""A transformer's sizes and number of parameters. Independent of ranks.

Symbols (arXiv 2205.05198): L layers, h hidden, a heads, s sequence, V vocab. f is the width of the MLP, 4h in GPT.
"""

from dataclasses import dataclass, fields, replace
from math import isqrt

LARGEST = 2**31 - 1  # limit of any size: far above real ones, and sums of products of three stay exact in a float


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): ranks and widths of a head's parts.

    q_rank may be 0 for uncompressed queries. Raises ValueError for invalid sizes.
    """

    q_rank: int = 1536
    kv_rank: int = 512
    nope: int = 128
    rope: int = 64
    value: int = 128

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name == "q_rank" else 1
            if not least <= getattr(self, field.name) <= LARGEST:
                raise ValueError(f"latent: {field.name} = {getattr(self, field.name)}, use {least} to {LARGEST}")


@dataclass(frozen=True)
class Transformer:
    """Sizes of a decoder-only transformer. Raises ValueError for invalid sizes.

    ffn: width of the MLP; gated: three matrices (SwiGLU) instead of two. norm_vectors: vectors of size h in a layer's
    norms (2 per LayerNorm, 1 per RMSNorm, so 4 in GPT and 2 in Llama 2). experts: 0 for a dense model; otherwise each
    layer after the first `dense_layers` has that many MLPs of width expert_ffn, and a token visits active_experts and
    shared_experts.
    number_bytes: of a weight or an activation: 2 in bf16, 4 in float32, which needs no second copy for Adam.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    sequence: int
    head_dim: int = 0  # 0: hidden / heads
    gated: bool = False
    bias: bool = False
    tied: bool = False
    positions: int = 0  # learned positions; 0 for rotary embeddings
    norm_vectors: int = 2
    qk_norm: bool = False
    experts: int = 0
    active_experts: int = 0
    expert_ffn: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    latent: Latent | None = None
    flash: bool = True  # attention in one kernel that does not keep scores
    number_bytes: int = 2

    def __post_init__(self) -> None:
        self._check_ranges()
        if self.number_bytes not in (2, 4):
            raise ValueError(f"number_bytes = {self.number_bytes}: use 2 for bf16 or 4 for float32")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} heads cannot share {self.kv_heads} key-value heads: use {divisors(self.heads)}"
            )
        if not self.head_dim and self.hidden % self.heads:
            raise ValueError(
                f"hidden {self.hidden} cannot be split over {self.heads} heads: give head_dim, or a hidden of "
                f"{self.hidden // self.heads * self.heads or self.heads}"
            )
        self._check_experts()
        if not self.ffn and self.moe_layers < self.layers:
            raise ValueError("ffn = 0 is not an MLP: give its width, 4 * hidden in GPT")

    def _check_ranges(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "vocab", "sequence"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} is not valid: use 1 or more")
        sizes = {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), int)}
        if negative := [name for name, size in sizes.items() if size < 0]:
            raise ValueError(f"{', '.join(negative)} must not be negative: use 0 for none")
        if huge := [name for name, size in sizes.items() if size > LARGEST]:
            raise ValueError(f"{', '.join(huge)}: no model is that large: use at most {LARGEST}")

    def _check_experts(self) -> None:
        if self.experts and not (0 < self.active_experts <= self.experts and self.expert_ffn):
            raise ValueError(f"{self.experts} experts need 1 to {self.experts} active ones and an expert_ffn above 0")
        if self.dense_layers > self.layers:
            raise ValueError(f"{self.dense_layers} dense layers in {self.layers} layers: use 0 to {self.layers}")

    @property
    def query_width(self) -> int:
        """Total width of all heads' queries: h if head_dim is h/a."""
        if self.latent:
            return self.heads * (self.latent.nope + self.latent.rope)
        return self.heads * (self.head_dim or self.hidden // self.heads)

    @property
    def value_width(self) -> int:
        """Total width of all heads' outputs: h if head_dim is h/a."""
        return self.heads * self.latent.value if self.latent else self.query_width

    @property
    def kv_width(self) -> int:
        """Total width of the keys, and also of the values."""
        return self.query_width if self.latent else self.query_width // self.heads * self.kv_heads

    @property
    def moe_layers(self) -> int:
        return self.layers - self.dense_layers if self.experts else 0


def with_sequence(model: Transformer, tokens: int) -> Transformer:
    """The same model with another sequence length. ValueError if it has fewer learned positions."""
    if 0 < model.positions < tokens:
        raise ValueError(
            f"{model.name} has {model.positions} learned positions: use sequences of {model.positions} or fewer"
        )
    return replace(model, sequence=tokens)


def divisors(number: int) -> list[int]:
    """All divisors in ascending order, which error messages suggest as valid sizes."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def attention_matrix_parameters(model: Transformer) -> int:
    """Weights of one layer's projections: h(a + 2 a_kv)d + a d h, 4h^2 in GPT; latent: arXiv 2405.04434, 2.1."""
    h = model.hidden
    if part := model.latent:
        query = (h + model.query_width) * part.q_rank if part.q_rank else h * model.query_width
        down = h * (part.kv_rank + part.rope)
        up = part.kv_rank * model.heads * (part.nope + part.value)
        return query + down + up + model.value_width * h
    return h * (model.query_width + 2 * model.kv_width) + model.value_width * h


def mlp_matrix_parameters(model: Transformer, width: int) -> int:
    """Weights of one MLP of this width: 2hf, or 3hf if gated; 8h^2 in GPT."""
    return (3 if model.gated else 2) * model.hidden * width


def layer_vectors(model: Transformer, width: int) -> int:
    """Norms and biases of a dense layer: in GPT 4h for norms, 3h + h for attention and 4h + h for the MLP: 13h."""
    vectors = model.norm_vectors * model.hidden
    if model.latent:
        vectors += model.latent.q_rank + model.latent.kv_rank
    if model.qk_norm:
        vectors += 2 * (model.query_width // model.heads)
    if model.bias:
        vectors += model.query_width + 2 * model.kv_width + 2 * model.hidden + width * (2 if model.gated else 1)
    return vectors


def dense_layer_parameters(model: Transformer) -> int:
    """12h^2 + 13h in GPT (arXiv 2104.04473, equation 2)."""
    matrices = attention_matrix_parameters(model) + mlp_matrix_parameters(model, model.ffn)
    return matrices + layer_vectors(model, model.ffn)


def expert_parameters(model: Transformer) -> int:
    """Weights of one routed expert."""
    return mlp_matrix_parameters(model, model.expert_ffn)


def moe_layer_parameters(model: Transformer, *, active: bool = False) -> int:
    """Attention, router and experts; with `active`, only the experts that one token visits."""
    routed = model.active_experts if active else model.experts
    around = attention_matrix_parameters(model) + layer_vectors(model, 0) + model.hidden * model.experts
    return around + (routed + model.shared_experts) * expert_parameters(model)


def embedding_parameters(model: Transformer) -> int:
    """Vh, twice if the output layer is not tied, plus the learned positions."""
    return (model.vocab * (1 if model.tied else 2) + model.positions) * model.hidden


def num_parameters(model: Transformer, *, active: bool = False) -> int:
    """P, the total number of parameters; with `active`, only those that one token visits.

    GPT: 12Lh^2(1 + 13/12h + (V + s)/12Lh), arXiv 2104.04473 equation 2, plus 2h for the last LayerNorm.
    """
    dense = (model.layers - model.moe_layers) * dense_layer_parameters(model) if model.layers > model.moe_layers else 0
    moe = model.moe_layers * moe_layer_parameters(model, active=active) if model.moe_layers else 0
    last_norm = 0 if model.norm_vectors == 0 else (2 if model.bias else 1) * model.hidden
    return dense + moe + embedding_parameters(model) + last_norm
