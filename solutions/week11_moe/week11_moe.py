# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Week 11 · Mixture of experts (混合专家): each token uses part of the model
#
# *Core: about 120 minutes; optional: about 70 · 1 to 4 ranks · no GPU needed*
#
# After this week you can
#
# - [ ] **build** a layer of experts: choose, drop, sort, compute and sort back, with all gradients right;
# - [ ] **balance** a router with a loss or a bias, and show that the loss reaches the router's weights;
# - [ ] **explain** the costs of a model with 671 billion parameters, of which a token uses 37 billion.
#
# **Before you start**, answer three questions for yourself.
#
# <details><summary>In a GPT, where are most of the weights: in attention or in the MLPs?</summary>
#
# In the MLPs: they have 8h² of a layer's 12h² weights.
# </details>
#
# <details><summary>A weight takes part in one multiply-add per token. How many FLOPs is that in training?</summary>
#
# Six: two in the forward, four in the backward.
# </details>
#
# <details><summary>100 balls fall into 100 boxes at random. Does each box get one?</summary>
#
# No: 37 stay empty, and the fullest gets four or five.
# </details>

# %%
from math import ceil, pi, sqrt

import torch
import torch.distributed as dist
from shardlab import alive, costs, figures, meter, model, run

from autograder import check

gelu = torch.nn.functional.gelu

# %% [markdown]
# ## 1 · The problem in numbers
#
# A larger model learns more, but costs more FLOPs per token. **Experts** (专家) break that link: a layer has many
# MLPs, and a **router** (路由器) sends each token to a few of them. A layer of DeepSeek-V3 has 256 experts; a token
# visits 8 of them, and one **shared expert** (共享专家) that every token visits (arXiv 2412.19437, section 4.2).
# **How much of the model does a token use?** Guess, then run the cell.

# %%
v3 = costs.find_model("deepseek-v3")
weights = {"all weights": costs.num_parameters(v3), "a token uses": costs.num_parameters(v3, active=True)}
figure, ax = figures.new_axes(7, 1.6)
title = f"DeepSeek-V3 in bf16: a token uses {weights['a token uses'] / weights['all weights']:.1%}"
bars = {name: 2 * number for name, number in weights.items()} | {
    "one GPU holds": costs.find_accelerator("h100").memory_bytes
}
figures.show(figure, figures.draw_bars(ax, bars, title=title))

# %% [markdown]
# All 671 billion weights can learn, for the FLOPs of 37 billion. But nothing fixes in advance how many tokens an
# expert gets. Each model stays on one device; next week the experts move to different ranks.
#
# ## 2 · The picture first
#
# Each of four ranks has 16 characters of this course's own text. Columns are tokens; rows are the 16 experts of a
# layer. Gray is the router's **score** (得分), and darker is higher. The dots are the two experts that each token
# chooses. The model is untrained. **Will all experts get about the same number of tokens?** Commit to an answer.

# %%
text = model.read_text("../../docs")
gpt = model.GPTConfig(layers=2, hidden=32, heads=4, sequence=32)


def fresh(experts, **more):
    torch.manual_seed(0)
    choice = model.Choice(experts, 2, score=torch.sigmoid, renormalise=True)
    return model.MoEGPT(gpt, model.MoEConfig(32, 32, choice, shared=1, gated=True, **more))


def routed_here():
    tokens, _ = model.batch_of(text, step=3, rank=dist.get_rank(), batch=1, sequence=16)
    return tokens[0], model.routed(fresh(16), tokens)[0][1]


seen = run(routed_here, ranks=4)
characters, logits = "".join(chr(t) for tokens, _ in seen for t in tokens), [logits for _, logits in seen]


# %%
def draw_map(k, factor=None, bias_steps=0, nodes=4):
    choice = model.Choice(16, k, score=torch.sigmoid, groups=4, groups_per_token=nodes)
    bias = torch.zeros(16)
    for _ in range(bias_steps):
        load = model.load_of(model.route(torch.cat(logits), choice, bias).experts_TK, 16)
        bias = model.updated_bias(bias, load, rate=0.002)
    found = [model.route(one, choice, bias) for one in logits]
    kept = [model.Capacity(factor or 16).kept(one, choice) for one in found]  # each rank drops from its own tokens
    scores, experts = torch.cat([one.scores_TE for one in found]), torch.cat([one.experts_TK for one in found])
    figure, ax = figures.new_axes(10, 3.4)
    flags = torch.cat(kept).tolist()
    words = figures.draw_routing(ax, scores.tolist(), experts.tolist(), flags, tokens=characters, num_ranks=4)
    figures.show(figure, words)


draw_map(k=2)

# %% [markdown]
# This router was not trained to prefer any expert. But its weights are random, and frequent characters occur again
# and again. The dashed line is the mean.
#
# An expert's tokens may be limited to a **capacity** (容量) of `factor` times the even share. Choices beyond it are
# **dropped** (丢弃, a cross): that expert adds nothing to the token. The second picture has factor 1. In the third, a
# **bias** (偏置), adjusted for 50 steps, is added to each expert's scores. **Why does it still drop so many, although
# the bars are nearly even?**

# %%
draw_map(k=2, factor=1.0)
draw_map(k=2, factor=1.0, bias_steps=50)


# %% [markdown]
# Each rank keeps two rows per expert from its own 16 tokens. A load that is even over 64 need not be even over 16.
#
# Now move the sliders. Four adjacent experts share a server (a *node*); a token may use `nodes` of the four nodes (week
# 12). **Which slider improves the balance most, and which does not affect it?**


# %% tags=["interactive"]
@figures.interact(k=(1, 4), capacity=["none", 1.0, 1.25, 2.0], bias_steps=(0, 50, 10), nodes=(1, 4))
def touch(k=2, capacity="none", bias_steps=0, nodes=4):
    draw_map(k, None if capacity == "none" else capacity, bias_steps, nodes)


# %% [markdown]
# <details><summary>Answer</summary>
#
# The bias helps most. A larger k also helps, because second choices spread. The capacity has no effect: it drops
# choices that were made.
# </details>
#
# ## 3 · Even a perfect router drops
#
# **Notation.** There are T tokens, E experts and k choices per token; H is the hidden size and F the width of an
# expert. The letters of a shape follow the name: `scores_TE`. T tokens make Tk choices, n = Tk/E per expert on
# average.
#
# Take the fairest possible router, which chooses k experts at random. An expert's **load** (负载) is then a sum of T
# coin tosses with probability k/E: its mean is n and its variance n(1 − k/E). With 64 experts, k = 1 and 4,096
# tokens, that is 64 ± 7.9. At factor 1, everything above the mean is dropped. The excess of a normal variable over
# its mean, counting values below the mean as 0, is σ/√(2π) on average. So the fraction lost is
#
# > σ/(n√(2π)) = √((1 − k/E) / (2πn)), which is 1/√(2π·T/E) for k = 1 and many experts.
#
# **By hand.** 8 tokens, 4 experts, k = 1, factor 1.25. An even share is n = 2 rows, so an expert can take
# ⌈1.25 · 2⌉ = 3. At factor 1, a uniform router loses √((3/4) / (2π · 2)) = 24%. If all 8 tokens choose the same
# expert, it keeps 3 of 8, and 5/8 = 62.5% are lost. At factor 8 it can take 16 rows and gets 8, so nothing is lost.
#
# ### Warm-up: the bill
#
# **`expert_bill(tokens, experts, k, factor)`** returns three numbers: the rows that an expert takes at this factor,
# rounded up; the fraction of choices that a uniform router loses at factor **1**, not `factor`; and the fraction lost
# at this factor when all tokens choose the same k experts. *About 3 lines.*
#
# > **What the grade varies.** The checks use fixed cases. The grade draws new ones: other sizes, scores and routers,
# > loads that are nearly even and loads that are not, a layer without tokens, one to four ranks, groups that are only
# > part of the world.


# %% exercise="week11.bill"
def expert_bill(tokens, experts, k, factor):
    """Returns [rows of an expert, fraction lost at factor 1 if uniform, fraction lost if all choose the same k]."""
    ### BEGIN SOLUTION
    rows = ceil(factor * tokens * k / experts)
    even = sqrt((1 - k / experts) / (2 * pi * tokens * k / experts))
    return [rows, even, max(0, 1 - rows / tokens)]
    ### END SOLUTION


# %% check="week11.bill" points=1
switch = {"tokens": 4096, "experts": 64, "k": 1, "factor": 1.25}
some = [{"tokens": 1000, "experts": 48, "k": 4, "factor": 1.1}, {"tokens": 64, "experts": 4, "k": 2, "factor": 2.5}]
check("week11.bill", expert_bill, cases=[switch, *some])

# %% [markdown]
# **Predict, then measure** on four ranks, each with 4,096 random tokens, eight times. The first line of the output is
# your second number; `costs.dropped_share` computes it for any factor. And how full is the *fullest* of 256 experts
# with k = 8?


# %%
def uniform(experts, k, factors):
    torch.manual_seed(dist.get_rank())
    n, rows = 4096 * k / experts, torch.tensor([ceil(f * 4096 * k / experts) for f in factors])
    draws = [torch.rand(4096, experts).topk(k).indices.flatten() for _ in range(8)]
    load = torch.stack([torch.bincount(one, minlength=experts) for one in draws])  # [8 draws, E]
    lost = (load.unsqueeze(-1) - rows).clamp(min=0).sum((0, 1)) / load.sum()
    return [*lost.tolist(), (load.max(1).values / n).mean().item()]


print(f"your formula at factor 1: {expert_bill(**switch)[1]:.2%}")
factors = (1.0, 1.1, 1.25, 1.5)
by_rank = torch.tensor(list(run(uniform, 64, 1, factors, ranks=4))).mean(0)
for factor, measured in zip(factors, by_rank.tolist(), strict=False):
    print(f"factor {factor:4}: {costs.dropped_share(64, factor, k_of_experts=1 / 64):6.2%} by formula, {measured:6.2%}")
for experts, k in ((64, 6), (256, 8)):
    full = sum(one[-1] for one in run(uniform, experts, k, (), ranks=4)) / 4
    predicted = costs.fullest_expert(experts, k, 4096)
    print(f"{experts} experts, k = {k}: the fullest has {full:.2f} times the mean, {predicted:.2f} by formula")

# %% [markdown]
# So **chance alone fills the fullest of 256 experts to about 1.25 times the mean**, with 128 rows on average. A
# capacity *factor* of 1.25 costs a fair router almost nothing; the untrained one of section 2 would lose much more.
#
# ## 4 · A router
#
# A router computes **logits** from a token (one number per expert), turns each logit into a score, and chooses the k
# best scores.
#
# **By hand.** One token, logits `[ln 4, ln 2, 0, 0]`, k = 2.
#
# | score | of the four experts | weights of experts 0 and 1 | renormalized (归一化) |
# |---|---|---|---|
# | softmax | 4/8, 2/8, 1/8, 1/8 | 4/8, 2/8 | 2/3, 1/3 |
# | sigmoid | 4/5, 2/3, 1/2, 1/2 | 4/5, 2/3 | 6/11, 5/11 |
# | sigmoid, bias `[0, 0, .4, 0]` | 4/5, 2/3, **.9**, 1/2 | **experts 2 and 0:** 1/2, 4/5 | 5/13, 8/13 |
#
# The last row is DeepSeek-V3's router: the bias affects the choice but not the weight (arXiv 2408.15664). Mixtral's
# is the renormalized softmax. Choosing has no gradient, so **the router learns only through the weight**, by which the
# layer multiplies each expert's output.
#
# <details><summary>With k = 1 and renormalized weights, what is the gradient of the router?</summary>
#
# Zero: the weight is always 1. Switch Transformers, with k = 1, uses the softmax itself.
# </details>
#
# **`choose(logits, bias, k, score, renormalise)`** returns each token's k experts, int64, and their weights. Convert
# logits to fp32 first, because small differences decide; weights stay fp32. `score` is a function of `[T, E]` logits.
# *About 5 lines.* Do not change `router_step`.


# %% exercise="week11.router"
def choose(logits, bias, k, score, renormalise):
    """Returns experts [T, k] and weights [T, k], fp32, for logits [T, E]; the bias [E] affects only the choice."""
    ### BEGIN SOLUTION
    scores = score(logits.float())
    experts = (scores + bias).topk(k, -1).indices
    weights = scores.gather(-1, experts)
    return experts, weights / weights.sum(-1, keepdim=True) if renormalise else weights
    ### END SOLUTION


def router_step(logits, bias, k, sigmoid, renormalise, gradient):
    """Given. Returns experts, weights, and the gradient of the logits if the weight of [t, e] has gradient[t, e]."""
    leaf = logits.clone().requires_grad_()
    score = torch.sigmoid if sigmoid else torch.nn.Softmax(-1)
    experts, weights = choose(leaf, bias, k, score, renormalise)
    (of_logits,) = torch.autograd.grad((weights * gradient.gather(-1, experts)).sum(), leaf)
    return experts, weights.detach(), of_logits


# %% check="week11.router" points=3
tiny = {"tokens": 2, "experts": 4, "k": 2, "sigmoid": False, "renormalise": False, "biased": False}
more = {"tokens": 12, "experts": 8, "k": 3, "sigmoid": False, "renormalise": True, "biased": False, "shift": 150}
v3_like = {"tokens": 12, "experts": 8, "k": 2, "sigmoid": True, "renormalise": True, "biased": True}
cases = [tiny, more, v3_like, v3_like | {"renormalise": False, "dtype": "bfloat16"}]
check("week11.router", router_step, cases=cases)

# %% [markdown]
# ## 5 · Sort, compute, sort back
#
# **By hand.** Three tokens, k = 2, experts `[[1, 0], [2, 1], [1, 2]]`. Choice j of token t has number t·k + j:
#
# | choice | 0 | 1 | 2 | 3 | 4 | 5 |
# |---|---|---|---|---|---|---|
# | token | 0 | 0 | 1 | 1 | 2 | 2 |
# | expert | 1 | 0 | 2 | 1 | 1 | 2 |
#
# A stable sort by expert gives choices `[1 | 0 3 4 | 2 5]`, from tokens `[0 | 0 1 2 | 1 2]`. These are the **rows**
# (行). Expert 1 has three of them, in one matrix product. With a capacity of two, it drops choice 4, the last one in
# the queue, or, *by score*, the one of the three with the smallest weight.
#
# Sorting is called **permute** (重排), and adding the weighted rows back to their tokens **unpermute**. Let "expert" e
# multiply by e + 1, let x be `[1, 10, 100]` and all weights 0.5, without a capacity. Rows `[1 | 1 10 100 | 10 100]`
# become `[1 | 2 20 200 | 30 300]`, and times 0.5 `[.5 | 1 10 100 | 15 150]`. Adding them to their tokens 0, 0, 1, 2,
# 1, 2 gives y = `[1.5, 25, 250]`. (A stable `argsort` sorts, and `index_add` adds.)
#
# **`kept(experts, weights, rows, by_score)`** returns which choices to keep, bool `[T, k]`; `rows` is the capacity.
# **`moe_layer`** returns the shared expert's output, plus weight times expert output for each choice that is kept. An
# MLP is `gelu(x @ up) @ down`. Compute each expert only on *its* rows (the check measures memory). And every weight
# must get a gradient, of zeros if its expert gets no tokens or the batch has none. (A product with 0 rows is legal in
# PyTorch, and its backward gives zeros.) Next week shows which rank waits otherwise. *About 18 lines in all.*


# %% exercise="week11.layer"
def kept(experts, weights, rows, by_score):
    """Keeps at most `rows` choices per expert: the first tokens', or by score the largest weights. [T, k].

    Without a capacity, rows >= T. No two weights are equal.
    """
    ### BEGIN SOLUTION
    stays = torch.zeros_like(experts, dtype=torch.bool)
    for expert in experts.unique():
        mine = (experts == expert).nonzero()
        if by_score:
            mine = mine[weights[experts == expert].argsort(descending=True)]
        stays[mine[:rows, 0], mine[:rows, 1]] = True
    return stays
    ### END SOLUTION


def moe_layer(x, experts, weights, up, down, shared_up, shared_down, rows, by_score):
    """Returns y [T, H] for x [T, H]; up [E, H, F], down [E, F, H]; the shared expert's are [H, F] and [F, H]."""
    ### BEGIN SOLUTION
    stays, num_experts = kept(experts, weights, rows, by_score), len(up)
    choice = experts.masked_fill(~stays, num_experts).flatten().argsort(stable=True)[: stays.sum()]
    token, sizes = choice // experts.shape[1], torch.bincount(experts[stays], minlength=num_experts)
    pieces = x[token].split(sizes.tolist())
    y = torch.cat([gelu(piece @ up[e]) @ down[e] for e, piece in enumerate(pieces)])
    shared = gelu(x @ shared_up) @ shared_down
    return shared.index_add(0, token, y * weights.flatten()[choice].unsqueeze(-1))
    ### END SOLUTION


def layer_step(x, experts, weights, up, down, shared_up, shared_down, rows, by_score, gradient):
    """Given. Returns the output, and the gradients of x, weights and the four matrices."""
    leaves = [one.clone().requires_grad_() for one in (x, weights, up, down, shared_up, shared_down)]
    y = moe_layer(leaves[0], experts, *leaves[1:], rows, by_score)
    return y.detach(), *torch.autograd.grad(y, leaves, gradient)


# %% check="week11.layer" points=3
drops = {"tokens": 6, "experts": 4, "hidden": 2, "width": 2, "k": 2, "rows": 2, "by_score": False, "part": "drops"}
best = drops | {"tokens": 20, "rows": 4, "by_score": True, "skewed": True}
values = {"tokens": 24, "experts": 6, "hidden": 4, "width": 6, "k": 2, "rows": 5, "by_score": False, "part": "values"}
nobody = values | {"tokens": 0, "experts": 4}
long = {"tokens": 2048, "experts": 32, "hidden": 16, "width": 256, "k": 2, "rows": 2048, "by_score": False}
cases = [drops, best, values | {"skewed": True}, nobody, long | {"part": "memory"}]
check("week11.layer", kept, layer_step, cases=cases)

# %% [markdown]
# **Predict, then measure.** With 32 experts and k = 2, how much more memory does a layer hold if it computes all
# experts on all tokens and masks the result?


# %%
def dense_layer(x, experts, weights, up, down, shared_up, shared_down, rows, by_score):
    of_expert = torch.zeros(len(x), len(up)).scatter(1, experts, weights)
    each = gelu(x @ up) @ down
    return gelu(x @ shared_up) @ shared_down + torch.einsum("te,eth->th", of_expert, each)


def layer_inputs(tokens=2048, num_experts=32, hidden=16, width=256):
    torch.manual_seed(0)
    weights, experts = torch.rand(tokens, num_experts).topk(2)
    up, down = torch.randn(num_experts, hidden, width) / 4, torch.randn(num_experts, width, hidden) / 16
    return [torch.randn(tokens, hidden), experts, weights, up, down, up[0], down[0], tokens, False]


outputs = []
for layer in (dense_layer, moe_layer):
    given = [
        one.requires_grad_() if torch.is_tensor(one) and one.is_floating_point() else one for one in layer_inputs()
    ]
    with alive(given[:7]) as held:
        outputs.append(layer(*given))
    print(f"{layer.__name__:11}: {held.peak / 2**20:6.1f} MiB, the first numbers {outputs[-1][0, :3].tolist()}")

# %% [markdown]
# The ratio is below E/k = 16: both also hold the shared expert, rows and outputs.
#
# ## 6 · Two ways to balance
#
# **A loss, by hand.** Four tokens, two experts, k = 1; scores `[.6 .4] [.7 .3] [.9 .1] [.2 .8]`. Expert 0 gets a
# share of 3/4 of the choices and a mean score of 0.6:
#
# > **auxiliary loss** (辅助损失) = E · Σ shareₑ · meanₑ = 2 · (3/4 · 0.6 + 1/4 · 0.4) = **1.1**
#
# It is 1 if the load is even and E if one expert takes everything (Switch Transformers, arXiv 2101.03961, equations 4
# to 6). The share is a count and has no gradient; the mean does. So the loss pushes *every* token away from expert 0,
# even those that need it. It is added to the training loss with a small coefficient; Switch uses 0.01.
#
# **A bias, by hand.** With loads `[6, 4, 2]` and mean 4, the bias moves by `[−u, 0, +u]`, once per step, without a
# gradient or a loss (arXiv 2408.15664, algorithm 1; DeepSeek-V3 uses u = 0.001).
#
# **`balance_loss(scores, experts)`** divides each token's scores by their sum (sigmoids do not add up to 1) and
# returns the loss. **`moved_bias(bias, load, rate)`** returns the new bias. Some loads are above 2²⁵, so compute in
# integers: in bf16, counts around 40,000 flipped a sign
# ([Megatron-LM#7081](https://github.com/NVIDIA/Megatron-LM/pull/7081)). *About 3 lines each.*


# %% exercise="week11.balance"
def balance_loss(scores, experts):
    """Returns E times the sum of (share of choices) * (mean score) for scores [T, E] and experts [T, k]."""
    ### BEGIN SOLUTION
    num_experts = scores.shape[1]
    share = torch.bincount(experts.flatten(), minlength=num_experts) / experts.numel()
    return num_experts * (share * (scores / scores.sum(-1, keepdim=True)).mean(0)).sum()
    ### END SOLUTION


def loss_step(scores, experts):
    """Given. Returns the loss and the gradient of the scores."""
    leaf = scores.clone().requires_grad_()
    loss = balance_loss(leaf, experts)
    return loss.detach(), torch.autograd.grad(loss, leaf)[0]


def moved_bias(bias, load, rate):
    """Returns the bias [E] after a step with loads [E], int64; a load exactly at the mean does not change it."""
    ### BEGIN SOLUTION
    return bias + rate * torch.sign(load.sum() - len(load) * load)
    ### END SOLUTION


# %% check="week11.balance" points=2
five = {"tokens": 5, "experts": 2, "k": 1, "sigmoid": False, "part": "loss"}
sigmoids = {"tokens": 17, "experts": 6, "k": 3, "sigmoid": True, "part": "loss"}
near = {"experts": 5, "around": 100, "rate": 0.001, "part": "bias"}
cases = [five, sigmoids, near, {"experts": 7, "around": 2**25 + 1, "rate": 0.1, "part": "bias"}]
check("week11.balance", loss_step, moved_bias, cases=cases)

# %% [markdown]
# ## 7 · Bug hunt: a loss without a gradient
#
# A layer cannot add to the training loss. So it attaches its own loss to its output, with a Function that returns y
# unchanged and whose backward sends a gradient of 1 into the loss, as if it had been added. In
# [Automodel#1408](https://github.com/NVIDIA-NeMo/Automodel/issues/1408) this was
#
# ```python
# MoEAuxLossAutoScaler.apply(weights, aux_loss * weights.shape[0])
# ```
#
# **Which three things are wrong with this line?** Write them down before you open the answer.
#
# <details><summary>Three mistakes</summary>
#
# The return value is thrown away, so no gradient flows. The loss is multiplied by the number of tokens. There is no
# coefficient. The first mistake hides the other two.
# </details>
#
# **By hand.** Let y = 3, let the attached loss be 2, and let the training loss be y². The Function returns 3. Its
# backward receives 2y = 6, and returns 6 for y and 1 for the attached loss. If only the first mistake is fixed, with
# 64 tokens and coefficient 0.01, the loss's gradient is 64/0.01 = 6,400 times too large. (The issue, with other
# numbers, estimates 180,000.)
#
# **`WithLoss`** is the Function. **`balanced_layer`** returns y of `layer_of` with your `balance_loss` attached,
# times the coefficient. `flow_step` is given. *About 4 lines.*


# %%
def layer_of(x, router, scales, k):
    """Given. A small layer where expert e multiplies by scales[e]; returns y [T, H], scores [T, E], choices [T, k]."""
    scores = (x @ router.T).softmax(-1)
    weights, experts = scores.topk(k, -1)
    return (weights.unsqueeze(-1) * scales[experts]).sum(1) * x, scores, experts


# %% exercise="week11.flow"
class WithLoss(torch.autograd.Function):
    """Returns y; the backward also sends a gradient of 1 into `loss`, a scalar."""

    @staticmethod
    def forward(ctx, y, loss):
        ### BEGIN SOLUTION
        return y.view_as(y)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        return gradient, torch.ones(())
        ### END SOLUTION


def balanced_layer(x, router, scales, k, coefficient):
    """Returns y [T, H] of `layer_of` with coefficient times the balance loss attached."""
    ### BEGIN SOLUTION
    y, scores, experts = layer_of(x, router, scales, k)
    return WithLoss.apply(y, coefficient * balance_loss(scores, experts))
    ### END SOLUTION


def flow_step(x, target, router, scales, k, coefficient):
    """Given. Returns the output, and the gradients of router and experts."""
    router, scales = (one.clone().requires_grad_() for one in (router, scales))
    y = balanced_layer(x, router, scales, k, coefficient)
    (y - target).square().mean().backward()
    return y.detach(), router.grad, scales.grad


# %% check="week11.flow" points=2
one = {"tokens": 12, "experts": 4, "hidden": 4, "k": 1, "coefficient": 0.5}
more = {"tokens": 30, "experts": 6, "hidden": 5, "k": 2, "coefficient": 0.25}
check("week11.flow", flow_step, cases=[one, more])

# %% [markdown]
# **Measure the bug.** How large is the loss's part of the router's gradient, with the line as found, and with only
# its first mistake fixed?


# %%
def asked_for(way, coefficient=0.01, tokens=64):
    """The norm of the balance loss's part of the router's gradient."""
    torch.manual_seed(1)
    x, router = torch.randn(tokens, 4) + 0.5, torch.randn(8, 4).requires_grad_()
    y, scores, experts = layer_of(x, router, torch.ones(8, 4), 2)
    loss = balance_loss(scores, experts)
    if way == "as found":
        WithLoss.apply(y, loss * tokens)
    y = WithLoss.apply(y, loss * tokens) if way == "returned" else y
    total = 0 * y.sum() + (coefficient * loss if way == "added" else 0)
    return torch.autograd.grad(total, router)[0].norm().item()


for way in ("added", "as found", "returned"):
    print(f"{way:9}: {asked_for(way) / asked_for('added'):6.0f} times what it should be, with 64 tokens")

# %% [markdown]
# Three more mistakes appear only with several microbatches or ranks: see the first optional exercise.

# %% [markdown]
# ## 8 · Interview: active against total parameters
#
# **`parameters(…)`** returns two numbers: all parameters, and the **active** (激活) parameters, which a token uses.
# Count an embedding and an output of V · h each; `attention` weights in each layer, including norms; in
# `dense_layers`, a gated MLP of width ffn; in the other layers, a router (h · E) and gated experts of width
# expert_ffn: `experts` routed ones, of which a token visits k, and `shared` ones. A gated MLP has three matrices.
# Count the whole router and embedding as active.
#
# **By hand.** Two layers, one of them dense, h = 2, V = 10, attention 16, ffn 8; 4 experts of width 3, k = 1, one
# shared. Embedding and output have 2 · 10 · 2 = 40 parameters, attention 2 · 16 = 32, the dense MLP 3 · 2 · 8 = 48,
# the router 2 · 4 = 8, each expert 3 · 2 · 3 = 18. The total is 128 + 5 · 18 = **218**, of which 128 + 2 · 18 =
# **164** are active. *About 4 lines.*


# %% exercise="week11.active"
def parameters(layers, dense_layers, hidden, attention, ffn, expert_ffn, experts, k, shared, vocab):
    """Returns [all parameters, active parameters]."""
    ### BEGIN SOLUTION
    moe_layers, each = layers - dense_layers, 3 * hidden * expert_ffn
    around = 2 * vocab * hidden + layers * attention + dense_layers * 3 * hidden * ffn + moe_layers * hidden * experts
    return [around + moe_layers * (routed + shared) * each for routed in (experts, k)]
    ### END SOLUTION


# %% check="week11.active" points=1
mixtral = {"layers": 32, "dense_layers": 0, "hidden": 4096, "attention": 41_951_232, "ffn": 0, "expert_ffn": 14_336}
deepseek = {"layers": 61, "dense_layers": 3, "hidden": 7168, "attention": 187_121_664, "ffn": 18_432}
mixtral |= {"experts": 8, "k": 2, "shared": 0, "vocab": 32_000}
deepseek |= {"expert_ffn": 2048, "experts": 256, "k": 8, "shared": 1, "vocab": 129_280}
check("week11.active", parameters, cases=[mixtral, deepseek])

# %% [markdown]
# The published numbers are 47 and 13 billion for Mixtral 8x7B (arXiv 2401.04088), and 671 and 37 billion for
# DeepSeek-V3 (arXiv 2412.19437). Yours is slightly larger for DeepSeek-V3, because you count the whole embedding. (16
# bytes of states per parameter, with gradients in bf16, as in week 3.)

# %%
h100 = costs.find_accelerator("h100")
for name, sizes in (("Mixtral", mixtral), ("DeepSeek-V3", deepseek)):
    total, active = parameters(**sizes)
    rows = 1e6 * sizes["k"] / sizes["experts"]
    print(f"{name:12} {total / 1e9:5.1f} billion, active {active / 1e9:4.1f}: {total / active:4.1f} times as many")
    print(f"{'':12} training: {6 * active / 1e9:.0f} GFLOP per token, {16 * total / 1e12:.2f} TB of states,", end=" ")
    print(f"{ceil(16 * total / h100.memory_bytes)} GPUs to hold them; of 1M tokens an expert gets {rows:,.0f}")

# %% [markdown]
# Now write the answer you would give, in five to eight sentences: which costs of DeepSeek-V3 are those of a model
# with 37 billion parameters, and which are those of one with 671 billion? Why is "8x7B" neither 56 nor 14 billion?
# What happens to the advantage with a batch of 64 tokens in inference? What does an unbalanced router cost, and which
# of this week's two remedies would you choose, and why?

# %% [markdown] manual="week11.interview" points=2
# ### BEGIN SOLUTION
# FLOPs follow the active parameters: 225 GFLOP per
# token in training, like a dense model of 37.6 billion, an eighteenth of a dense one of 671. Memory follows all
# parameters: 10.7 TB of weights, gradients and optimizer states, 125 GPUs just to hold them. So do checkpoints, and the
# gradient traffic between replicas of the experts. Each expert sees k/E, a 32nd, of the tokens, so its matrix products
# are thin unless the batch is large.
#
# In "8x7B", only the MLPs exist eight times; attention and embedding are shared: 46.7 billion in total, 12.9 active.
#
# With 64 tokens and k = 8 of 256, nearly every expert gets some token: (1 − 1/32)^64 = 13% get none. So most weights
# are read from memory for one or two rows each, and reading them, not the active FLOPs, determines the time.
#
# With an unbalanced router, everything waits for the fullest expert: a ratio of 2 doubles the experts' time, or drops
# tokens. I would choose the bias, because no gradient disturbs the model, and it needs only E counts per layer and
# step; I would add a very small loss per sequence, as DeepSeek-V3 does. Chance sets the floor: 1.25 at 128 rows per
# expert.
#
# Full marks: FLOPs by active and memory by total parameters, both with numbers; the shared parts of 8x7B; reading
# weights at small batches; the fullest expert; a remedy with its reason.
# ### END SOLUTION

# %% [markdown]
# ## 9 · Recap
#
# <details><summary>How does a router learn, although choosing has no gradient?</summary>
#
# The layer multiplies each expert's output by its weight, and the weight is the router's score.
# </details>
#
# <details><summary>A uniform router, 64 rows per expert, capacity factor 1: what fraction is dropped?</summary>
#
# 1/√(2π · 64) = 5%.
# </details>
#
# <details><summary>The loss falls. Does the balance loss reach the router?</summary>
#
# You cannot tell from the loss. Compare the router's gradient with that of a loss that you add yourself.
# </details>
#
# ## 10 · Take away
#
# > **One.** A token uses part of the model: FLOPs follow the active parameters, memory follows all of them.
#
# > **Two.** Balance is never free and never perfect: chance alone fills one of 256 experts 25% above the mean.
#
# > **Three.** An auxiliary loss can be missing, or a thousand times too strong, and training still runs. Compare its
# > gradient.
#
# ## 11 · Going further
#
# - Fedus et al., *Switch Transformers*, arXiv 2101.03961. Look for: why k = 1 is enough, and equations 4 to 6.
# - Dai et al., *DeepSeekMoE*, arXiv 2401.06066. Look for: why many small experts, and why a shared one.
# - Wang et al., *Auxiliary-Loss-Free Load Balancing*, arXiv 2408.15664. Look for: algorithm 1, and the sign.
#
# **Next week** the experts move to different ranks. Rows are sent in the order in which you sorted them, an expert
# without rows becomes a rank that must still take part, and the fullest expert a GPU that everyone waits for.

# %% [markdown]
# ## Optional · Every mesh, fifty steps, and latent attention
#
# ### Bug hunt: another mesh, another model
#
# Three more mistakes with an attached loss, with their sources:
#
# - **once per microbatch** (微批次): M microbatches give M losses, and nobody divided the sum
#   ([Automodel#3359](https://github.com/NVIDIA-NeMo/Automodel/pull/3359)); a factor contained the microbatch size
#   ([Megatron-LM#5798](https://github.com/NVIDIA/Megatron-LM/pull/5798)) or the tensor-parallel size
#   ([#5047](https://github.com/NVIDIA/Megatron-LM/pull/5047));
# - **local counts.** *By hand:* two ranks, two experts. Rank 0's tokens have scores (.9, .1) and choose expert 0;
#   rank 1's have (.1, .9) and choose expert 1. Over both, the loss is 2 · (½ · .5 + ½ · .5) = 1. Rank 0 alone sees
#   share (1, 0) and loss 2 · (1 · .9) = 1.8, and punishes a perfect router. So sum the *counts* over ranks. You need
#   not send scores: with the global share and its own mean, each rank has 2 · (½ · .9 + ½ · .1) = 1, and the mean of
#   these over ranks with equally many tokens is the loss over all tokens;
# - **double counting.** A recomputed layer (week 6) runs twice, so a count in its forward doubles
#   ([torchtitan#1593](https://github.com/pytorch/torchtitan/pull/1593)). Watch:


# %%
class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.load = torch.nn.Linear(8, 4), torch.zeros(4, dtype=torch.int64)

    def forward(self, x):
        scores = self.router(x).softmax(-1)
        self.load += torch.bincount(scores.topk(1).indices.flatten(), minlength=4)
        return scores


for way in ("kept", "recomputed"):
    torch.manual_seed(0)
    network = torch.nn.Sequential(Counting())
    if way == "recomputed":
        model.recompute(network, "0")
    network(torch.randn(10, 8)).square().sum().backward()
    load = network[0].load
    print(f"{way:10}: {load.tolist()} of 10 tokens; the bias moves by {torch.sign(load.sum() - 4 * load).tolist()}")

# %% [markdown]
# Doubled counts have the same sign, so you see the bug only in the logged loads. Counting an evaluation
# ([torchtitan#4148](https://github.com/pytorch/torchtitan/pull/4148)) can change the sign too. Neither the first run
# of a recomputed layer nor an evaluation keeps a graph: `torch.is_grad_enabled()` is False.
#
# **`mesh_layer`** returns y of `layer_of` with the loss attached, times the coefficient and divided by the number of
# microbatches, and adds the choices of all ranks to `counts` once. Use your `WithLoss`. `moe_step` is given: it
# imitates recomputation (the first run must attach and count nothing), divides the task loss by the number of
# microbatches, and averages gradients over ranks. The router gradient and the counts must equal those of one process.
# Send E counts per microbatch, not scores. *About 8 lines.*


# %% exercise="week11.flow-more"
def mesh_layer(x, router, scales, k, coefficient, num_microbatches, counts, *, group):
    """Returns y [T, H] with the balance loss of all ranks' tokens attached; adds their choices to `counts` [E]."""
    ### BEGIN SOLUTION
    y, scores, experts = layer_of(x, router, scales, k)
    if not torch.is_grad_enabled():
        return y
    load = torch.bincount(experts.flatten(), minlength=len(router))
    dist.all_reduce(load, group=group)
    counts += load
    loss = len(router) * (load / load.sum() * scores.mean(0)).sum()
    return WithLoss.apply(y, coefficient * loss / num_microbatches)
    ### END SOLUTION


def moe_step(batches, targets, router, scales, k, coefficient, *, group):
    """Given. Runs a step with microbatches; returns the averaged gradients of router and experts, and the counts."""
    router, scales = (one.clone().requires_grad_() for one in (router, scales))
    counts, num = torch.zeros(len(router), dtype=torch.int64), len(batches)
    for x, target in zip(batches, targets, strict=True):
        with torch.no_grad():  # the first forward, which keeps no graph
            mesh_layer(x, router, scales, k, coefficient, num, counts, group=group)
        y = mesh_layer(x, router, scales, k, coefficient, num, counts, group=group)  # recomputed in the backward
        ((y - target).square().mean() / num).backward()
    for one in (router, scales):
        dist.all_reduce(one.grad, group=group)
        one.grad /= dist.get_world_size(group)
    return router.grad, scales.grad, counts


# %% check="week11.flow-more" points=2 optional=true
pair = {"ranks": 2, "microbatches": 1, "tokens": 12, "experts": 4, "hidden": 4, "k": 1, "coefficient": 0.5}
three = {"ranks": 4, "subgroup": [1, 2, 3], "microbatches": 3, "tokens": 16, "experts": 6, "hidden": 5, "k": 2}
check("week11.flow-more", moe_step, cases=[pair, three | {"coefficient": 0.25}])

# %% [markdown]
# **The same numbers on every mesh.** Here are the same 48 tokens on 1, 2 and 4 ranks:


# %%
def of_my_tokens():
    torch.manual_seed(2)
    x, target, router, scales = torch.randn(48, 4) + 0.5, torch.randn(48, 4), torch.randn(8, 4), torch.randn(8, 4)
    mine = [[one.chunk(dist.get_world_size())[dist.get_rank()]] for one in (x, target)]
    of_router, _, counts = moe_step(*mine, router, scales, 2, 0.5, group=dist.group.WORLD)
    return of_router.norm().item(), counts.tolist()


for ranks in (1, 2, 4):
    length, counts = run(of_my_tokens, ranks=ranks)[0]
    print(f"{ranks} ranks: router gradient {length:.6f}, choices {counts}")

# %% [markdown]
# ### Challenge: balance a skewed router in 50 steps
#
# There are sigmoid scores, 16 experts, k = 2, and 1,024 tokens per step. `next_bias` sees only the E counts of the
# last step.

# %%
print(f"the fullest of 16 experts, uniform router, 1,024 tokens: {costs.fullest_expert(16, 2, 1024):.2f}")


def skewed(steps=50):
    torch.manual_seed(3)
    router, skew = torch.randn(16, 16), 1.2 * torch.randn(16)
    return torch.randn(steps, 1024, 16) @ (0.35 * router / router.norm(dim=0)) + skew


def loads(logits, bias, k=2):
    return torch.bincount((logits.sigmoid() + bias).topk(k).indices.flatten(), minlength=len(bias))


def fullest_by_step(rule):
    bias, ratios = torch.zeros(16), []
    for step, logits in enumerate(skewed()):
        load = loads(logits, bias)
        ratios.append((load.max() / load.float().mean()).item())
        bias = rule(bias, load, step)
    return ratios


rules = {
    f"sign, rate {rate}": lambda bias, load, step, rate=rate: moved_bias(bias, load, rate)
    for rate in (0.001, 0.01, 0.1)
}
runs = {name: fullest_by_step(rule) for name, rule in rules.items()}
figure, ax = figures.new_axes(8, 3)
title = "A rate of 0.001 is too slow, and 0.1 never settles"
figures.show(figure, figures.draw_fullest(ax, runs, target=1.2, title=title))

# %% [markdown]
# **`next_bias(bias, load, step)`** returns the bias for the next step. The target: with the biases of the last ten
# steps, the fullest expert has on average at most **1.2** times the mean, on 8,192 new tokens. There are three kinds
# of router: skewed at random, as above; half as skewed, but with a *hot* expert of skew 4, which most tokens prefer; or
# with a *cold* one of −4, which none chooses. Two ideas: an update that shrinks with `step`, and one that depends on
# *how far* a load is from the mean. *1 to 5 lines.*


# %% exercise="week11.fifty-steps"
def next_bias(bias, load, step):
    """Returns the bias [E] after step `step`, 0 to 49, which had the loads [E], int64."""
    ### BEGIN SOLUTION
    missing = 1 - load / load.float().mean()
    return bias + 0.2 * 0.05 ** (step / 49) * missing.clamp(-1, 1)
    ### END SOLUTION


def balanced(batches, k):
    """Given. Returns the bias after each step, [steps, E]."""
    bias, biases = torch.zeros(batches.shape[-1]), []
    for step, logits in enumerate(batches):
        experts = (logits.sigmoid() + bias).topk(k, -1).indices
        bias = next_bias(bias, torch.bincount(experts.flatten(), minlength=len(bias)), step)
        biases.append(bias)
    return torch.stack(biases)


# %% check="week11.fifty-steps" points=3 optional=true
check("week11.fifty-steps", balanced, cases=[{"part": part, "k": 2} for part in ("skewed", "hot", "cold")])

# %%
figure, ax = figures.new_axes(8, 3)
runs = {"yours": fullest_by_step(next_bias)} | {"sign, rate 0.01": runs["sign, rate 0.01"]}
title = f"Yours has {sum(runs['yours'][-10:]) / 10:.2f} times the mean in the last ten steps"
figures.show(figure, figures.draw_fullest(ax, runs, target=1.2, title=title))

# %% [markdown]
# ### What experts learn
#
# Three small GPTs with 8 experts per layer learn this course's text: without balancing, with the loss (coefficient
# 0.1), and with the bias (rate 0.005). **Predict:** does balancing help experts to specialize (专门化)? We measure the
# mutual information (互信息) of expert and character in bits: how much a choice reveals about the character.

# %%
ways = {"nothing": (0.0, 0.0), "loss": (0.1, 0.0), "bias": (0.0, 0.005)}


def trained(steps=250):
    auxiliary, rate = list(ways.values())[dist.get_rank()]
    torch.set_num_threads(1)
    network = fresh(8, auxiliary=auxiliary)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for step in range(steps):
        tokens, targets = model.batch_of(text, step=step, rank=0, batch=8, sequence=32)
        model.next_token_loss(network(tokens), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        for layer in network.modules():
            if isinstance(layer, model.MoE):
                layer.update_bias(rate=rate)
    tokens, targets = model.batch_of(text, step=10_000, rank=0, batch=32, sequence=32)
    experts = model.routed(network, tokens)[0][0].experts_TK
    return model.next_token_loss(network(tokens), targets).item(), experts, tokens.flatten()


for way, (loss, experts, tokens) in zip(ways, after := run(trained, ranks=3, timeout=120), strict=True):
    load = model.load_of(experts, 8)
    full, bits = load.max() / load.float().mean(), model.specialisation(experts, tokens)
    print(
        f"{way:8}: loss {loss:.2f}, fullest {full:.2f} times the mean, {bits:.2f} bits about the character per expert"
    )

# %%
visits = model.visits_by_kind(after[2][1], after[2][2], 8)
figure, ax = figures.new_axes(7, 3)
title = "With the bias: which experts each kind of character chooses (even: 12.5%, maximum: 50%)"
figures.show(figure, figures.draw_visits(ax, visits, title=title))

# %% [markdown]
# Without balancing, a few experts get most of the tokens, and an expert that gets everything does not specialize.
# With balancing, a choice reveals more about the character. (One small run with one seed: an observation,
# not a law.)

# %% [markdown]
# ### Latent attention: a small cache, not small activations
#
# To generate text, a layer stores every earlier token's keys and values in a **cache** (键值缓存). **Multi-head latent
# attention** (MLA, 多头潜在注意力; DeepSeek-V2, arXiv 2405.04434, section 2.1) stores a short **latent** (潜向量) of
# `kv_rank` numbers instead. After a norm, it is expanded into each head's `nope` numbers of the key and `value`
# numbers of the value. A key has `rope` more numbers with a rotary position, computed from x once and copied to each
# head. Queries of `nope + rope` numbers come from a latent of `q_rank`.
#
# The cache holds the latent and the shared rotary key (`kv_cache` and `pe_cache` in
# [DeepSeek's code](https://github.com/deepseek-ai/DeepSeek-V3/blob/main/inference/model.py)). The backward of
# training needs, per token: x; both latents, before and after their norms; an fp32 scale for each norm; queries,
# keys, values; the output; and, with attention in one kernel, an fp32 sum of exponentials per head. DeepSeek-V3
# repeats norms and up-projections (arXiv 2412.19437, section 3.2.3): then x, the latents before their norms, the
# rotary key, the output and the sums remain.
#
# **By hand.** h = 8, 2 heads, `q_rank` 4, `kv_rank` 3, `nope` 2, `rope` 1, `value` 2, bf16. The cache has 2 · (3 +
# 1) = **8** bytes, and all keys and values would have 2 · 2 · (3 + 2) = **20**. Kept: x 16, latents 2 · 2 · 7 = 28,
# scales 8, queries and keys 2 · 2 · 2 · 3 = 24, values and output 16, sums 8: **100**. Repeated: 16 + 2 · 7 + 2 + 8 +
# 8 = **48**.
#
# **`latent_bytes(…)`** returns these four numbers. *About 5 lines.*


# %% exercise="week11.latent"
def latent_bytes(hidden, heads, q_rank, kv_rank, nope, rope, value):
    """Returns bytes per token and layer in bf16: [latent cache, cache of keys and values, kept, kept if repeated]."""
    ### BEGIN SOLUTION
    keys, values, latents = heads * (nope + rope), heads * value, q_rank + kv_rank
    small = 2 * hidden + 2 * latents + 2 * values + 4 * heads
    expanded = 2 * latents + 8 + 2 * (2 * keys + values)
    return [2 * (kv_rank + rope), 2 * (keys + values), small + expanded, small + 2 * rope]
    ### END SOLUTION


# %% check="week11.latent" points=2 optional=true
by_hand = {"hidden": 8, "heads": 2, "q_rank": 4, "kv_rank": 3, "nope": 2, "rope": 1, "value": 2}
v3_sizes = {"hidden": 7168, "heads": 128, "q_rank": 1536, "kv_rank": 512, "nope": 128, "rope": 64, "value": 128}
check("week11.latent", latent_bytes, cases=[by_hand, v3_sizes])

# %% [markdown]
# **Measure** a real layer in float32: your third result is doubled, except for scales and sums.


# %%
sizes = {"hidden": 48, "heads": 3, "q_rank": 10, "kv_rank": 6, "nope": 8, "rope": 4, "value": 12}
attention = model.LatentAttention(**sizes)
turns = model.turns_of(model.angles(torch.arange(20), 4), torch.float32)  # a table for all layers
with meter.saved([*attention.parameters(), *turns]) as held:
    attention(torch.randn(20, 48), turns)
fp32 = 8 + 4 * sizes["heads"]
print(f"{held.num_bytes} bytes; by your formula {20 * (2 * (latent_bytes(**sizes)[2] - fp32) + fp32)}")
cache, plain, kept_bytes, repeated = latent_bytes(**v3_sizes)
print(f"DeepSeek-V3: the cache is {plain / cache:.0f} times smaller than that of 128 plain heads,")
print(f"a training token keeps {kept_bytes:,} bytes per layer, and {repeated:,} if repeated")

# %% [markdown]
# ### Read real code
#
# Open `moe_utils.py` and `router.py` in `megatron/core/transformer/moe` of your installed `megatron-core` 0.16.1.
#
# 1. `"drops"`: what is the default `drop_policy` of `apply_router_token_dropping`?
# 2. `"groups"`: k = 8, and a token may use 4 of 8 groups. How many scores of each group does `group_limited_topk` sum
#    to rank the groups? A number.
# 3. `"order"`: in which order does `TopKRouter.routing` call `_apply_aux_loss`, `_apply_expert_bias`, `apply_z_loss`,
#    `apply_router_token_dropping` and `topk_routing_with_score_function`? A list.

# %% exercise="week11.reading"
reading_answers = {"drops": None, "groups": None, "order": None}
### BEGIN SOLUTION
reading_answers["drops"] = "probs"
reading_answers["groups"] = 2
reading_answers["order"] = ["apply_z_loss", "topk_routing_with_score_function", "apply_router_token_dropping"]
reading_answers["order"] += ["_apply_aux_loss", "_apply_expert_bias"]
### END SOLUTION

# %% check="week11.reading" points=1 optional=true
check("week11.reading", reading_answers)
