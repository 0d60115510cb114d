"""Costs of experts: bytes of their exchanges, dropped choices, the fullest expert and states per rank.

Symbols: T tokens per rank, k choices per token, E experts, h hidden, e expert-parallel and t expert-tensor-parallel
size, n = Tk/E mean rows of an expert, counted over all ranks that send it rows. For parameters and FLOPs, active and
total, see `model.num_parameters(active=...)` and `flops.forward_flops_per_token`.
"""

from math import comb, sqrt
from statistics import NormalDist

from shardlab.costs.memory.states import StateBytes, zero_state_bytes
from shardlab.costs.models.model import Transformer, expert_parameters
from shardlab.costs.traffic import all_to_all_bytes, ring_all_gather_bytes

BF16, FP8 = 2.0, 1.0
FP8_SCALED = FP8 + 4 / 128  # a float32 scale per 128 numbers (DeepSeek-V3, arXiv 2412.19437, section 3.3.2)


def exchange_bytes(tokens: float, k: int, hidden: int, bytes_each: float = BF16) -> float:
    """Tkh * bytes: the payload of a rank's dispatch, including rows that stay local. Combine returns as many bytes."""
    _check_positive(tokens=tokens, k=k, hidden=hidden)
    return tokens * k * hidden * bytes_each


def layer_exchange_bytes(
    tokens: float, k: int, hidden: int, ep: int, *, dispatch_bytes: float = BF16, combine_bytes: float = BF16
) -> float:
    """Bytes that a rank sends in a layer's forward with even loads: (e-1)/e of dispatch and combine. Same backward.

    dispatch_bytes, combine_bytes: per number; DeepSeek-V3 uses FP8_SCALED and BF16 (section 3.2.2).
    """
    return sum(
        all_to_all_bytes(ep, exchange_bytes(tokens, k, hidden, each)) for each in (dispatch_bytes, combine_bytes)
    )


def nodes_of_token(experts: int, k: int, nodes: int, allowed: int = 0) -> float:
    """Expected number of nodes with k random experts of E: N(1 - C(E - E/N, k) / C(E, k)), within `allowed` nodes.

    8 of 256 experts are on 5.29 of 8 nodes, or on 3.63 if 4 are allowed. Raises ValueError if the nodes do not divide
    the experts or the allowed nodes hold fewer than k.
    """
    allowed = allowed or nodes
    if nodes < 1 or experts % nodes or not 1 <= allowed <= nodes or not 1 <= k <= experts // nodes * allowed:
        raise ValueError(
            f"{k} of {experts} experts on {allowed} of {nodes} nodes: use a number of nodes that divides the experts, "
            "allow at most that many, and choose no more experts than the allowed nodes hold"
        )
    each = experts // nodes
    return allowed * (1 - comb(each * (allowed - 1), k) / comb(each * allowed, k))


def two_level_bytes(tokens: float, k: int, hidden: int, copies: float, bytes_each: float = BF16) -> float:
    """Payload of a rank's dispatch across nodes when one copy of a token goes to each of its `copies` nodes.

    A copy carries k weights and k expert numbers of 4 bytes each. With one level k rows are sent: `exchange_bytes`.
    """
    _check_positive(tokens=tokens, k=k, hidden=hidden)
    return tokens * copies * (hidden * bytes_each + k * (4 + 4))


def expert_tensor_bytes(tokens: float, hidden: int, etp: int, bytes_each: float = BF16) -> float:
    """Bytes that a rank sends in a forward if t ranks share all experts: 2(t-1)Th, an all-gather and a reduce-scatter.

    Tokens are gathered before routing, so k does not matter. Expert parallelism sends 2(e-1)/e Tkh: equal at k = e,
    less for fewer choices.
    """
    return 2 * ring_all_gather_bytes(etp, etp * exchange_bytes(tokens, 1, hidden, bytes_each))


def tokens_first(k: int, ep: int) -> bool:
    """Whether ranks that share experts should gather tokens, before copying them for k experts, or rows afterwards.

    Rows: k/e of a token's copies stay where they arrived and go to t-1 partners. Tokens: one copy goes to t-1 partners,
    but each partner sends all k on. So tokens are cheaper if k > e.
    """
    return k > ep


def split_expert_bytes(tokens: float, k: int, hidden: int, *, ep: int, etp: int, bytes_each: float = BF16) -> float:
    """Bytes that a rank sends in a layer's forward with even loads if each expert is on etp of e * etp ranks.

    Rows: 2 Tkh ((e-1)/e + t-1). Tokens: 2 Th (t-1) + 2 tTkh (e-1)/e, plus k weights and k expert numbers of 4 bytes
    each per token. `tokens_first` decides between the two.
    """
    if not tokens_first(k, ep):
        rows = exchange_bytes(tokens, k, hidden, bytes_each)
        return layer_exchange_bytes(
            tokens, k, hidden, ep, dispatch_bytes=bytes_each, combine_bytes=bytes_each
        ) + 2 * ring_all_gather_bytes(etp, etp * rows)
    decisions = ring_all_gather_bytes(etp, etp * exchange_bytes(tokens, k, 1, 4 + 4))
    dispatched = layer_exchange_bytes(etp * tokens, k, hidden, ep, dispatch_bytes=bytes_each, combine_bytes=bytes_each)
    return expert_tensor_bytes(tokens, hidden, etp, bytes_each) + decisions + dispatched


def dropped_share(rows_per_expert: float, factor: float = 1.0, *, k_of_experts: float = 0.0) -> float:
    """Share of choices that a capacity of `factor` drops with a uniform router.

    An expert's rows are approximately normal with mean n and variance n(1 - k/E). At factor 1 the excess over factor *
    n is sqrt((1 - k/E) / 2 pi n). k_of_experts: k/E.
    """
    _check_positive(rows_per_expert=rows_per_expert, factor=factor)
    normal, spread = NormalDist(), sqrt((1 - k_of_experts) / rows_per_expert)
    at = (factor - 1) / spread
    return spread * (normal.pdf(at) - at * (1 - normal.cdf(at)))


def fullest_expert(experts: int, k: int, tokens: float) -> float:
    """Rows of the fullest expert over the mean, uniform router: 1.24 for 8 of 256 and 4096 tokens (1.25 when sampled).

    1 + z sqrt((1 - k/E) / n), where z is the median-like quantile 0.5264^(1/E) of the largest of E normal numbers (Chen
    and Tyler, "Accurate approximation to the extreme order statistics of Gaussian samples", 1999).
    """
    _check_positive(experts=experts, k=k, tokens=tokens)
    spread = sqrt((1 - k / experts) * experts / (tokens * k))
    return 1 + NormalDist().inv_cdf(0.5264 ** (1 / experts)) * spread


def expert_state_bytes(model: Transformer, *, ep: int, etp: int = 1, edp: int = 1, zero: int = 1) -> StateBytes:
    """Weights, gradients and optimizer state of the routed experts on one rank; ZeRO splits over the edp copies."""
    _check_positive(ep=ep, etp=etp)
    held = model.moe_layers * model.experts * expert_parameters(model) / (ep * etp)
    return zero_state_bytes(held, edp, zero)


def _check_positive(**sizes: float) -> None:
    for name, size in sizes.items():
        if not size > 0:
            raise ValueError(f"{name} = {size}: use a number above 0")
