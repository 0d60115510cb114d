"""Different: one expression each, as on the page."""


def five_axis_bill(tp, cp, ep, dp, pp, layers, hidden, kv, tokens, k, dense, experts):
    def all_reduce(ranks, num_bytes):
        return 2 * (ranks - 1) / ranks * num_bytes

    copies, expert_copies, own = dp * cp, dp * cp // ep, layers / pp
    on_tp = own * 2 * all_reduce(tp, 2 * tokens * hidden)
    on_cp = own * (cp - 1) * 2 * 2 * tokens * kv / tp
    on_ep = own * 2 * 2 * tokens / tp * k * hidden * (ep - 1) / ep
    gradients = all_reduce(copies, 2 * dense / tp / pp) + all_reduce(expert_copies, 2 * experts / tp / pp / ep)
    return [copies, expert_copies, on_tp, on_cp, on_ep, gradients]
