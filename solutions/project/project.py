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
# # Final project · one question, one artifact, one report
#
# *Four weeks, about eight hours each · 2 to 8 ranks · no GPU needed · optional if you study alone*
#
# You own a trainer now, about 900 lines in `mine/`. In this project you use it to answer a question that the course
# leaves open.
#
# After this project you can
#
# - [ ] **turn** "is it faster?" into a question with a predicted number and a baseline;
# - [ ] **build** an experiment that somebody else can repeat with one command;
# - [ ] **say** what your measurement shows, and what it does not.
#
# Work alone or in pairs. The whole report fits in this notebook: each part below is one cell, graded by a person.
#
# | week | what you do | what you show |
# |---|---|---|
# | 1 | choose a question, predict, try the riskiest step | the proposal: send it to your teacher before week 2 |
# | 2 | change your trainer, and prove that it still trains correctly | equality with one process |
# | 3 | measure, with a baseline and with seeds | a table and a figure |
# | 4 | write; repeat somebody else's experiment; answer their review | this notebook |

# %%
import shardlab
import torch
from mine import model, program, train
from shardlab import meter
from torch import distributed as dist

# %% [markdown]
# ## 1 · The rubric
#
# Each part gets all of its points, half, or none.
#
# - **Proposal, 4.** One question; a number predicted by a formula *before* the run; the result that would refute it.
#   Half: the prediction is a direction ("faster").
# - **Artifact, 6.** This notebook repeats every reported number, and the changed trainer equals one process. Half: some
#   numbers are repeated, or equality is shown on one mesh only.
# - **Method, 6.** A fair baseline, one change at a time, a stated noise (seeds, or alternating runs). Half: a baseline,
#   and one run of each.
# - **Result, 6.** Prediction next to measurement; the difference is explained, and the explanation is tested. Half:
#   compared, not explained.
# - **Limits, 4.** What the data cannot show, and one check that could have proved you wrong. Half: general remarks.
# - **Review, 4.** Somebody else's numbers repeated, and one real flaw, or the reason why there is none. Half: read, not
#   repeated.
#
# A refuted prediction loses nothing. A prediction that you changed after the run loses the points of *proposal* and
# *result*. Three graded examples in `docs/project-examples.md` show what 28, 19 and 7 of 30 points look like: read them
# before you begin.
#
# ## 2 · Questions that the course leaves open
#
# 1. How few bits may a gradient message have before the loss notices? (Weeks 2 and 3. Trap: unpaired seeds hide a small
#    gap.)
# 2. How slow may a link be before overlap stops paying in *your* ZeRO-2? (Week 3. Trap: two cores that compute and send
#    at once.)
# 3. When does ZB-H1 lose to 1F1B, with stages of unequal length? (Week 8. Trap: a bubble in slots, not in seconds.)
# 4. Average weights every H steps instead of gradients every step (DiLoCo, arXiv 2311.08105). What does a step cost
#    that sends 1/H of the bytes? (Week 2. Trap: comparing after equal steps when the batches differ.)
# 5. Documents of different length on a causal ring: how even can the work be? (Week 14. Trap: counting tokens instead
#    of query-key pairs.)
# 6. Copy the busiest experts: how many copies until more do not help? (Week 12. Trap: loads of a router's first step.)
# 7. Gather ZeRO-3's weights in fp8: which layers must stay in bf16? (Week 4. Trap: one scale per tensor, one outlier.)
# 8. From a training layout to tensor-parallel ranks for inference: what is the least that anyone must send? (Week 15,
#    `reads`. Trap: counting only what rank 0 sends.)
# 9. One rank computes a wrong sum once in 1,000 steps. How soon can its replicas notice, and for how many bytes? (Weeks
#    1 and 15. Trap: a check that every rank passes because all share the error.)
# 10. Does your planner order the meshes of your trainer correctly? (Week 10. Trap: eight ranks timed on two cores.)
#
# Your own question is welcome if a run of minutes on your machine can answer it. Bytes, losses and held memory can be
# measured exactly anywhere. Seconds need a quiet machine with a core per rank, or an emulated link.
#
# ## 3 · The proposal
#
# **By hand.** *How many bytes does ZeRO-2 save if gradients travel in bf16?* With N ranks and P parameters, a step
# reduces gradients, (N−1)/N · 4P bytes, and gathers weights, as many again. bf16 halves the first and leaves the
# second. So the step sends 3/4 of the bytes, not half. Refuted if the meter counts less than 74% or more than 76%.
#
# Write five lines: the question; the number you expect and its formula; the baseline; what you will measure, on which
# mesh, with how many seeds; and the result that would refute you.

# %% [markdown] manual="project.proposal" points=4
# ### BEGIN SOLUTION
# **Question.** May the gradient messages of my ZeRO-2 be bf16?
#
# **Prediction.** 3/4 of the bytes of a step ((N−1)/N · (2P + 4P) instead of 8P), and a loss that differs by less than
# the spread over seeds.
#
# **Baseline.** `zero2_backward` of week 3, in fp32, same seeds and data.
#
# **Measurement.** dp 4, sent bytes of one step, mean loss of the last ten of 120 steps, five seeds, compared seed by
# seed.
#
# **Refuted if** the bytes are not within 1% of 3/4, or a seed's loss moves by more than a tenth of the spread.
# ### END SOLUTION

# %% [markdown]
# ## 4 · The artifact
#
# `losses_and_bytes` trains with your `mine` on real ranks. `change` is a function that each rank calls first: it
# replaces a part of your trainer. Keep the recipe small enough for a run of a minute.


# %%
def losses_and_bytes(recipe, change=None):
    """The loss of each step, and the bytes that this rank sends in the last one."""
    if change is not None:
        change()
    recipe = program.recipe_of(recipe, dist.get_world_size())
    weights, text = model.new_weights(recipe), model.new_text(recipe)
    trainer = train.new_trainer(recipe, program.groups_of(recipe), weights, text)
    losses = [train.train_step(trainer, step) for step in range(recipe.steps - 1)]
    with meter.record() as bill:
        losses.append(train.train_step(trainer, recipe.steps - 1))
    return losses, sum(event.sent_bytes for event in bill.events)


def trained(recipe, change=None):
    """The result of rank 0. The number of ranks follows from the recipe's axes."""
    ranks = torch.Size([recipe.get(axis, 1) for axis in program.AXES]).numel()
    return shardlab.run(losses_and_bytes, recipe, change, ranks=ranks, timeout=240)[0]


# %% [markdown]
# The next cell is your experiment. **`experiment()`** returns every number of your report by name, and `reported` has
# the numbers that your report states. Include the equality of the changed trainer with one process.

# %% manual="project.artifact" points=6
### BEGIN SOLUTION
from mine import zero

RECIPE = {"dp": 4, "zero": 2, "steps": 12, "lr": 0.1}


def in_bf16():
    """Replace the reduce-scatter by an exchange in bf16 that is summed in fp32."""

    def backward(parameters, loss, *, group):
        size, slices = dist.get_world_size(group), []
        loss.backward()
        for parameter in parameters:
            sent = zero.flatten_and_pad([parameter.grad], size).bfloat16()
            received, parameter.grad = torch.empty_like(sent), None
            dist.all_to_all_single(received, sent, group=group)
            slices.append(received.view(size, -1).float().sum(0) / size)
        return slices

    zero.zero2_backward = backward


def experiment():
    """Every number of the report, by name."""
    alone, (losses, sent) = trained(RECIPE | {"dp": 1, "zero": 0})[0], trained(RECIPE)
    found, fewer = trained(RECIPE, in_bf16)
    return {
        "share of the bytes": fewer / sent,
        "loss, fp32": losses[-1],
        "loss, bf16": found[-1],
        "fp32 and one process differ by": max(abs(a - b) for a, b in zip(losses, alone, strict=True)),
        "bf16 and one process differ by": max(abs(a - b) for a, b in zip(found, alone, strict=True)),
    }


reported = {"share of the bytes": 0.6667, "loss, fp32": 4.3179, "loss, bf16": 4.3179}
### END SOLUTION


# %%
def reproduce(experiment, reported, relative=1e-3):
    """Run the experiment again and print each reported number next to the new one."""
    again = experiment()
    for name, value in again.items():
        if name not in reported:
            print(f"{name}: {value:.6g}")
            continue
        same = abs(value - reported[name]) <= relative * abs(value)
        print(f"{name}: reported {reported[name]:.6g}, now {value:.6g}{'' if same else '   NOT REPRODUCED'}")


if "experiment" in globals():
    reproduce(experiment, reported)
else:
    print("The cell above has no experiment() yet.")

# %% [markdown]
# **By hand, twice.** Before you trust a surprising number, change the input so that you know the answer. One rank must
# send 0 bytes. With `lr = 0`, every loss is the same for each change.
#
# The next cell stores your modules in this page, so that the person who grades it can run them. Run it, then save.

# %%
from shardlab.own import pack

pack()

# %% [markdown]
# ## 5 · Method and result
#
# **Method**, about 150 words: the baseline, and why it is fair; what differs between the runs, and what does not; how
# you know the noise. By hand: five seeds give losses with a spread of 0.08. A gap of 0.0005 is invisible in the means.
# Compared seed by seed, it has the same sign five times of five.

# %% [markdown] manual="project.method" points=6
# ### BEGIN SOLUTION
# The baseline is my own ZeRO-2 with the same seeds, data and order of sequences. The only change is the message: an
# all-to-all in bf16 whose parts are summed in fp32, so that no sum is rounded twice. To be sure that the all-to-all
# itself changes nothing, I also ran it in fp32: all losses are equal to the baseline's in every printed digit. Five
# seeds; each seed is compared with itself, because weights and text differ between seeds far more than the messages.
# ### END SOLUTION

# %% [markdown]
# **Result**, about 200 words, a table, and a figure if it says more than the table: prediction next to measurement. If
# they differ, say why, and test your explanation with one more number.

# %% [markdown] manual="project.result" points=6
# ### BEGIN SOLUTION
# | messages | bytes of a step | loss, mean of five seeds (spread) | largest change of one seed |
# |---|---|---|---|
# | fp32 | 493,648 | 3.6909 (0.084) | – |
# | bf16 | 329,104 | 3.6909 (0.084) | less than 0.0001 |
# | fp8, scaled | 247,096 | 3.6914 (0.083) | +0.0011 |
#
# I predicted 3/4 of the bytes and measured 2/3. The meter's list shows why: gradients take 329,088 bytes, twice the
# 164,544 of the gathered weights, because my trainer reduces once per *microbatch*, and the recipe has two. My formula
# had one. With m microbatches it is (m + 1) · (N−1)/N · 4P, and bf16 saves m/2 of m + 1. For m = 1 that is 3/4 again: I
# ran it, and the meter says 0.750.
# ### END SOLUTION

# %% [markdown]
# ## 6 · Limits
#
# Say what your data cannot show: sizes, lengths of runs, optimizers, machines. Then name one check that could have
# proved you wrong, and how it ended.

# %% [markdown] manual="project.limits" points=4
# ### BEGIN SOLUTION
# 55,000 parameters and 120 steps of SGD. Nothing here is about large models, whose gradients span more orders of
# magnitude, or about Adam, which divides by their size. I measured bytes, not seconds: on loopback a smaller message is
# not faster. The check that could have proved me wrong: fp8 without a scale, whose smallest positive number is 0.002,
# should hurt. It did not (3.6914), so at this learning rate the test is too easy to separate the two fp8 variants.
# ### END SOLUTION

# %% [markdown]
# ## 7 · Review somebody else's project
#
# Your teacher gives you another project (`autograder reviews project` draws the pairs). Run its notebook from top to
# bottom, then write: which numbers you repeated and which not; the strongest part; the flaw that matters most, or the
# check that convinced you that there is none; one question. Be as concrete as you want others to be with you.
#
# If you study alone, review one of the three examples before you read its grade.

# %% [markdown] manual="project.review" points=4
# ### BEGIN SOLUTION
# I repeated the project on GPipe and 1F1B. All eight numbers of its table came out equal. Strongest: the
# prediction per rank, m / (p − r), which holds to three digits. The flaw: it counts saved tensors on one recipe with
# four stages and eight microbatches, and its title says "1F1B halves the memory". Its own formula says a factor of 2
# on rank 0 and 8 on rank 3. Question: what happens with fewer microbatches than stages?
# ### END SOLUTION

# %% [markdown]
# ## 8 · Publish it
#
# `mine/` is your own work (see *Your own trainer* in the self-study guide for the three files that are not). A
# repository with `mine/`, the recipe, this notebook and a README that states one number and how to repeat it is a
# better reference than a certificate.
