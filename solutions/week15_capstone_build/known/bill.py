# %% right_closed from="page"
"""Different: one expression each, as on the page."""

# %% dp_alone of="right_closed"
"""Wrong: adds dense gradients up over dp and forgets cp."""

# -    copies, expert_copies, own = dp * cp, dp * cp // ep, layers / pp
# +    copies, expert_copies, own = dp, dp * cp // ep, layers / pp

# %% experts_over_all of="right_closed"
"""Wrong: adds experts up over dp and cp, as if all held the same ones."""

# -    copies, expert_copies, own = dp * cp, dp * cp // ep, layers / pp
# +    copies, expert_copies, own = dp * cp, dp * cp, layers / pp

# %% all_layers of="right_closed"
"""Wrong: a rank has all layers."""

# -    copies, expert_copies, own = dp * cp, dp * cp // ep, layers / pp
# +    copies, expert_copies, own = dp * cp, dp * cp // ep, layers

# %% one_all_reduce of="right_closed"
"""Wrong: one all-reduce per layer."""

# -    on_tp = own * 2 * all_reduce(tp, 2 * tokens * hidden)
# +    on_tp = own * all_reduce(tp, 2 * tokens * hidden)

# %% keys_alone of="right_closed"
"""Wrong: keys travel round the ring, values do not."""

# -    on_cp = own * (cp - 1) * 2 * 2 * tokens * kv / tp
# +    on_cp = own * (cp - 1) * 2 * tokens * kv / tp

# %% whole_keys of="right_closed"
"""Wrong: keys and values of all heads, whatever tp."""

# -    on_cp = own * (cp - 1) * 2 * 2 * tokens * kv / tp
# +    on_cp = own * (cp - 1) * 2 * 2 * tokens * kv

# %% dispatch_alone of="right_closed"
"""Wrong: rows do not come back."""

# -    on_ep = own * 2 * 2 * tokens / tp * k * hidden * (ep - 1) / ep
# +    on_ep = own * 2 * tokens / tp * k * hidden * (ep - 1) / ep

# %% all_rows_leave of="right_closed"
"""Wrong: rows for experts at home leave, too."""

# -    on_ep = own * 2 * 2 * tokens / tp * k * hidden * (ep - 1) / ep
# +    on_ep = own * 2 * 2 * tokens / tp * k * hidden

# %% whole_experts of="right_closed"
"""Wrong: a rank has the gradients of all experts."""

# -    gradients = all_reduce(copies, 2 * dense / tp / pp) + all_reduce(expert_copies, 2 * experts / tp / pp / ep)
# +    gradients = all_reduce(copies, 2 * dense / tp / pp) + all_reduce(expert_copies, 2 * experts / tp / pp)

# %% float32 of="right_closed"
"""Wrong: gradients of four bytes."""

# -    gradients = all_reduce(copies, 2 * dense / tp / pp) + all_reduce(expert_copies, 2 * experts / tp / pp / ep)
# +    gradients = all_reduce(copies, 4 * dense / tp / pp) + all_reduce(expert_copies, 2 * experts / tp / pp / ep)

# %% for_two of="right_closed"
"""Wrong: a ring of two, whatever the size."""

# -        return 2 * (ranks - 1) / ranks * num_bytes
# +        return (num_bytes if ranks > 1 else 0)

# %% right_fractions
"""Different: exact fractions, halves of an all-reduce counted one by one."""

from fractions import Fraction


def ring_phase(ranks, num_bytes):
    return Fraction(num_bytes) * (ranks - 1) / ranks


def five_axis_bill(tp, cp, ep, dp, pp, layers, hidden, kv, tokens, k, dense, experts):
    stage = Fraction(layers, pp)
    activation = 2 * tokens * hidden
    tp_bytes = sum(ring_phase(tp, activation) for _ in range(4)) * stage
    cp_bytes = stage * sum(2 * (2 * tokens * Fraction(kv, tp)) for _ in range(cp - 1))
    ep_bytes = stage * 2 * ring_phase(ep, Fraction(activation * k, tp))
    replicas, twins = cp * dp, cp * dp // ep
    weights = 2 * ring_phase(replicas, Fraction(2 * dense, tp * pp))
    weights += 2 * ring_phase(twins, Fraction(2 * experts, tp * pp * ep))
    return [replicas, twins, *map(float, (tp_bytes, cp_bytes, ep_bytes, weights))]
