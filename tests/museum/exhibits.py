"""The exhibits of the bug museum: a number, what happened, the public threads, and checks that would have found it.

A text names its numbers in braces; `tests.museum.symptoms` measures them. The fix of a graded hunt is never given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tests.museum import symptoms
from tests.museum.symptoms import Numbers


class Check(Enum):
    """A kind of check, with a description."""

    RESULT = "compare outputs and loss with one process, and rank with rank"
    GRADIENT = "compare gradients, their norm and the weights after a step with one process, and rank with rank"
    BYTES = "compare what each rank sent with the formula"
    ORDER = "compare the calls and messages of the ranks, by name, before they are answered"
    MEMORY = "compare what each rank holds with the formula"
    TYPE = "state for every tensor and axis: replicated, split, or a partial sum; and in which dtype it is summed"


@dataclass(frozen=True)
class Exhibit:
    """One bug. title, story: texts with numbers in braces. found_by: the cheapest check first. hunt: an exercise, or
    the place where the bug can be observed. seen: the cell, lab or test with the code. threads: as `owner/name#1`.
    exact: numbers that the text calls exact to the last digit, as errors.
    """

    title: str
    story: str
    symptom: Callable[[], Numbers]
    seen: str
    hunt: str
    threads: tuple[str, ...]
    found_by: tuple[Check, ...]
    exact: tuple[str, ...] = ()
    needs_megatron: bool = False

    @property
    def week(self) -> str:
        """The week, such as "week05"."""
        return self.hunt.split(".")[0]


R, G, B, O, M, T = Check  # noqa: E741

EXHIBITS = (
    # ---- the result is wrong ----
    Exhibit(
        "{t4:.0f} biases too many",
        "A row-parallel layer sums the ranks' partial outputs. Its bias is not a partial output, but every rank added "
        "it: the result is off by {t2:.0f} bias on two ranks and by {t4:.0f} on four. Three codebases did this "
        "independently between 2021 and 2026. On one GPU, where most tests run, the layer is exact.",
        symptoms.bias_added_by_all,
        "the cell `bias_on_every_rank`",
        "week05.mlp",
        ("PaddlePaddle/Paddle#35186", "huggingface/text-generation-inference#1036", "Wenyueh/MinivLLM#80"),
        (R, T),
    ),
    Exhibit(
        "Right, plus {t2:.4f}",
        "A loss for *split* logits received gathered ones. No shape check fails, and every rank sums all exponentials. "
        "The loss is too large by {t2:.4f} on two ranks and {t4:.4f} on four: log 2 and log 4, whatever the logits. An "
        "error with a closed formula is a gift: which formula contains log t?",
        symptoms.log_of_t,
        "`both_bugs` of lab 2, in the megatron-core installed in `.venv`",
        "week05.cross-entropy",
        ("NVIDIA/Megatron-LM#7452",),
        (R, T),
        needs_megatron=True,
    ),
    Exhibit(
        "One loss, two values: {split[0]:.4f} and {split[1]:.4f}",
        "Label smoothing over a split vocabulary. On one process the mean loss is {right:.4f}; on two ranks, one "
        "computes {split[0]:.4f} and the other {split[1]:.4f}. It was reported in March 2024, and the version of "
        "megatron-core that lab 2 installs still does it: smoothing is off by default, so few users notice.",
        symptoms.local_smoothing,
        "`both_bugs` of lab 2, in the megatron-core installed in `.venv`",
        "week05.cross-entropy",
        ("NVIDIA/Megatron-LM#737", "NVIDIA/Megatron-LM#7464", "NVIDIA/Megatron-LM#7452"),
        (R, T),
        needs_megatron=True,
    ),
    Exhibit(
        "{alike:.0%} identical where {right:.0%} is chance",
        "Two ranks hold different neurons and should drop different ones. Their masks agreed in {alike:.0%} of all "
        "positions; independent masks agree in {right:.0%}. The line was written in June 2023 and was still in a "
        "release in October 2024. Rerunning with another seed does not reveal it: compare the ranks.",
        symptoms.same_masks,
        "the cell `steps_as_found`",
        "week05.dropout",
        ("NVIDIA/Megatron-LM#1256",),
        (R,),
    ),
    Exhibit(
        "Ten tokens, {counted} counted",
        "A router counts its experts' tokens in the forward. When the layer is recomputed, its forward runs twice: of "
        "{tokens} tokens, {counted} are counted. A bias that moves by a sign is unaffected. The people who read the "
        "logs are not.",
        symptoms.counted_twice,
        "the cell `class Counting`",
        "week11.flow-more",
        ("pytorch/torchtitan#1593",),
        (R,),
    ),
    Exhibit(
        "{wrong} label in {of} is wrong",
        "A zig-zag split gives rank 0 the beginning and the end of a sequence. If labels are shifted *after* the "
        "split, they are {found} where {right} is right: {wrong} wrong label, only at the seam. The longer the "
        "sequence, the smaller the error, and the harder it is to see.",
        symptoms.shifted_after_the_split,
        "`zig_zag` of the week's page",
        "week14.batch",
        ("NVIDIA-BioNeMo/bionemo-recipes#1449",),
        (R,),
    ),
    Exhibit(
        "A perfect router, punished: {found:.0f} instead of {right:.0f}",
        "All tokens of rank 0 choose expert 0, all of rank 1 choose expert 1. Over both ranks the load is perfectly "
        "even, and the balance loss is {right:.0f}, its minimum. Each rank alone reports {found:.0f}. Similar bugs "
        "scaled the same loss by the tensor-parallel size, by the microbatch, or by the number of microbatches: "
        "*another mesh, another model*.",
        symptoms.own_counts,
        "`balance_loss` of the week's page",
        "week11.flow-more",
        ("NVIDIA/Megatron-LM#5047", "NVIDIA/Megatron-LM#5798", "NVIDIA-NeMo/Automodel#3359"),
        (R, G),
    ),
    # ---- the result is right, the gradient is not ----
    Exhibit(
        "Loss {loss:.3f}, gradient {gradient:.3f}",
        "Both should be 1.000. A pipeline of four microbatches logs exactly the loss of one process, but learns from a "
        "gradient that is {gradient:.0f} times too large. With Adam even the loss curve looks right. Gradient clipping "
        "notices.",
        symptoms.divided_for_the_log,
        "the cell `step_with_a_bug`",
        "week07.pipeline-step",
        ("pytorch/torchtitan#2972",),
        (G,),
    ),
    Exhibit(
        "{t4:.0f} times too large, and Adam does not notice",
        "Experts' gradients were ep times too large: {t2:.0f} times on two ranks, {t4:.0f} times on four. Adam divides "
        "a gradient by its size, so its step is right to the last digit. The bug was found, and found again, in at "
        "least three codebases.",
        symptoms.divided_by_copies,
        "`tests/shardlab/expert_parallel/test_published_faults.py`",
        "week12.gradients",
        (
            "deepspeedai/DeepSpeed#5618",
            "deepspeedai/DeepSpeed#6546",
            "databricks/megablocks#20",
            "NVIDIA/Megatron-LM#5956",
        ),
        (G,),
        exact=("adam",),
    ),
    Exhibit(
        "{as_found:.0f} times what it should be. After the fix: {returned:,.0f} times",
        "A router's balance loss is attached to the gradient of its output, but the attachment was dropped: its part "
        "of the router's gradient was {as_found:.0f}. Anyone who fixed only that met the next bug, which the first had "
        "hidden: with 64 tokens it is {returned:,.0f} times too strong. Bugs come in stacks. Measure again after the "
        "fix.",
        symptoms.loss_that_never_flows,
        "the cell `asked_for`",
        "week11.flow",
        ("NVIDIA-NeMo/Automodel#1408", "NVIDIA-NeMo/Automodel#1412"),
        (G,),
    ),
    Exhibit(
        "One weight, two uses, {shared:.0%} of its gradient",
        "The first and the last layer share a weight, as in GPT's embedding. Output: {output:.3f} of what it should "
        "be. Gradient of the other weight: {other:.3f}. Of the shared one: {shared:.3f}. PyTorch's FSDP2 had a subtler "
        "bug: if the number of ranks did not divide the vocabulary size, the last rank's rows were never updated.",
        symptoms.shared_weight,
        "the cell `step_with_a_bug`",
        "week04.tied",
        ("pytorch/pytorch#176076", "pytorch/pytorch#176257"),
        (G,),
    ),
    Exhibit(
        "Two wrong models, both with a *lower* loss",
        "Sequence parallelism that forgot the norms. After 40 steps one process has a loss of {right:.4f}; these two "
        "ranks have {loss:.4f}, which looks like progress. Their copies of the norm weights differ by {apart:.2f}. One "
        "of the threads reports a loss that stayed near 8.",
        symptoms.partial_norms,
        "the cell `train`, with `nothing`",
        "week06.norm",
        ("NVIDIA/Megatron-LM#1446", "EleutherAI/gpt-neox#1257", "NVIDIA/TransformerEngine#435"),
        (G, B, T),
    ),
    Exhibit(
        "Copies that agree, and are wrong by {off:.2f}",
        "The next attempt averaged the norms' gradients. Now the ranks' copies differ by {apart:.0f}, so comparing "
        "rank with rank passes. Compared with one process, the norm weights are off by {off:.2f}. Agreement is not "
        "truth.",
        symptoms.averaged_norms,
        "the cell `train`, with `averaged`",
        "week06.norm",
        ("EleutherAI/gpt-neox#1259",),
        (G,),
    ),
    Exhibit(
        "A gradient of {t2:.0f} instead of 1",
        "The opposite mistake: after a gather every rank does *the same* work, and the backward sums t equal "
        "gradients: {t2:.0f} on two ranks, {t4:.0f} on four. The forward only copies and cannot be wrong.",
        symptoms.gathered_twice,
        "the cell `same_work_everywhere`",
        "week06.norm",
        ("NVIDIA/Megatron-LM#7452",),
        (G, T),
    ),
    Exhibit(
        "Loss off by {loss:.0f}, gradient by {gradient:.0%}",
        "Recomputation runs the layer again. With dropout and without the saved random state, the second run draws "
        "different masks: the loss belongs to one network, the gradient to another. The thread reports a training run "
        "whose loss after 150 steps was 2.49 with recomputation and 2.19 without.",
        symptoms.masks_drawn_again,
        "the cell `loss_and_gradient`",
        "week06.recompute",
        ("allenai/OLMo-core#828",),
        (G,),
        exact=("loss",),
    ),
    Exhibit(
        "{transposed} of {contiguous} numbers summed",
        "megatron-core's `_reduce` should sum the ranks' copies of a tensor. It sums {contiguous} of {contiguous} "
        "numbers if the tensor is contiguous, {transposed} of {contiguous} if it is transposed. All bytes are sent, no "
        "error is raised, and the sum is discarded. It happened in a backward, where transposes are common and nobody "
        "prints.",
        symptoms.unreduced,
        "`_reduce` of the megatron-core installed in `.venv`",
        "week05.operators",
        ("NVIDIA/Megatron-LM#5337", "NVIDIA/Megatron-LM#5338", "NovaSky-AI/SkyRL#1886"),
        (G,),
        needs_megatron=True,
    ),
    Exhibit(
        "{found[0]:.1f} and {found[1]:.1f}: two replicas, two models",
        "Two DDP replicas should both hold {right[0]:.1f}, the mean. A zero-bubble schedule splits the backward into "
        "two halves, and they hold {found[0]:.1f} and {found[1]:.1f}. DDP was not broken; its hooks were never called. "
        "Nothing is sent, so counting bytes finds it in one step.",
        symptoms.hooks_gone_round,
        "the cell `gradients_of_two_replicas`",
        "week08.hooks",
        ("pytorch/pytorch#144530",),
        (G, B),
    ),
    Exhibit(
        "Three, four, and not five",
        "Rank 0 holds `[3, 0]`, rank 1 `[4, 0]`. The norm is {right:.0f}; the ranks clip by {norms[0]:.0f} and "
        "{norms[1]:.0f}. The result should have length 1, but has {after:.2f} and another direction: `{clipped}`. The "
        "loss still falls.",
        symptoms.norm_of_a_slice,
        "the cell `clip_as_found`",
        "week03.clip",
        ("pytorch/pytorch#170862", "sgl-project/SpecForge#663"),
        (G, T),
    ),
    Exhibit(
        "{found:.2f} instead of {right:.2f}: one LayerNorm, counted twice",
        "The norm over mixed axes. Shards of a matrix must be summed over the ranks, copies must not. This code sums "
        "both: {found:.2f} where the model's norm is {right:.2f}. The more ranks, the stronger the clipping; two "
        "meshes that should agree do not.",
        symptoms.counted_on_every_rank,
        "the cell `norm_as_found`",
        "week09.whole-norm",
        ("pytorch/pytorch#88955", "ByteDance-Seed/VeOmni#184"),
        (G, T),
    ),
    Exhibit(
        "Four ranks, {different} opinions",
        "The reverse: experts on other ranks are left out of the norm. Each of four ranks computes a different share "
        "of it, from {least:.0%} to {most:.0%}, and clips the *same* dense weight differently. Copies drift apart.",
        symptoms.norm_without_experts,
        "`tests/shardlab/expert_parallel/test_published_faults.py`",
        "week12.gradients",
        ("NVIDIA/Megatron-LM#5916", "deepspeedai/DeepSpeed#8475"),
        (G, T),
    ),
    Exhibit(
        "dv exact, dq off by {dq:.0%}",
        "A ring's backward. The output and dv are right to the last digit, but dq is off by {dq:.0%} and dk by "
        "{dk:.0%}. A test that checks only dv passes.",
        symptoms.sums_of_a_block,
        "the cell `own_sums`",
        "week14.ring-backward",
        ("tenstorrent/tt-metal#53205", "tenstorrent/tt-metal#53216"),
        (G,),
        exact=("output", "dv"),
    ),
    Exhibit(
        "Forward exact, dk off by {dk:.0%}",
        "Another ring, another backward: the output is right to the last digit, dq is off by {dq:.0%}, dk by {dk:.0%}, "
        "dv by {dv:.0%}. Nothing is NaN, and for generating images, which needs no backward, the code was perfect.",
        symptoms.first_steps_keys,
        "the cell `saved`",
        "week14.ring-backward",
        ("huggingface/diffusers#14265", "huggingface/diffusers#14274"),
        (G,),
        exact=("output",),
    ),
    Exhibit(
        "{c2} on two ranks, {c4} on four",
        "Only one label of the sequence counts. Each rank averages over its own labels, and then the ranks average "
        "their means: the gradient is {c2} of what it should be on two ranks and {c4} on four. When every label counts "
        "on every rank, the same code is exact.",
        symptoms.mean_of_means,
        "the cell `lone_label`",
        "week14.batch",
        ("NVIDIA/Megatron-LM#7513", "NVIDIA/Megatron-LM#7452"),
        (G, T),
    ),
    # ---- the order is wrong ----
    Exhibit(
        "{bytes:,} bytes that never leave",
        "Two ranks both send first and receive second. {waiting} of 2 wait forever. On some transports short messages "
        "fit into a buffer, and the same code works until a message grows.",
        symptoms.both_send_first,
        "the cell `both_send_first`",
        "week01.exchange",
        ("meta-pytorch/torchrec#4472",),
        (O,),
    ),
    Exhibit(
        "{found:.0f} instead of {right:.0f}: another parameter's gradient",
        "Rank 0 did not use parameter 1 and skipped its all-reduce. Its *next* gradient was matched with rank 1's "
        "gradient of parameter 1: the shapes are equal, so they were summed. {found:.0f} instead of {right:.0f}, and "
        "only the call after that hangs. A collective has no name.",
        symptoms.unused_parameter,
        "the cell `skip_what_is_missing`",
        "week02.unused",
        ("pytorch/pytorch#68803",),
        (O, G),
    ),
    Exhibit(
        "{waiting} of 4 ranks wait before the first loss",
        "All ranks must create all groups in the same order. Two ranks began with the rows of the mesh and two with "
        "its columns; all {waiting} wait.",
        symptoms.groups_in_two_orders,
        "the cell `rows_or_columns`",
        "week09.same-order",
        ("pytorch/pytorch#25390",),
        (O,),
    ),
    Exhibit(
        "{waiting} rank waits for one that had nothing to do",
        "No token chose rank 1's experts. It returned an empty tensor of the right shape and skipped the backward, and "
        "{waiting} rank waits for it there. The forward is right in every number. It takes an unlucky batch, so it may "
        "happen on day three.",
        symptoms.rank_without_rows,
        "the cell `as_found`",
        "week12.empty-rank",
        ("PaddlePaddle/PaddleFormers#3010", "NVIDIA/Megatron-LM#4851", "NVIDIA-NeMo/Automodel#3680"),
        (O,),
    ),
    Exhibit(
        "It trains: {start:.2f} to {found:.2f}, instead of {right:.2f}",
        "An activation and a gradient of the same shape, swapped. There is no error and no hang: after 25 steps the "
        "loss fell from {start:.2f} to {found:.2f}, where the right order reaches {right:.2f}. NCCL has no tags, so "
        "only the order of two messages distinguishes them.",
        symptoms.swapped_message,
        "the cells `swap` and `train`",
        "week13.neighbours",
        ("pytorch/pytorch#94819", "pytorch/pytorch#125079"),
        (O, R, G),
    ),
    # ---- the memory is wrong ----
    Exhibit(
        "{times:.0f} times the memory, not one byte more sent",
        "ZeRO-3 with one unit around the whole model. Bytes sent: {sent:.2f} of what {units} units send. Loss: right. "
        "Shards: small. But at the peak, a rank holds {times:.0f} times as many unsharded weights. This is what you "
        "get if you define no units.",
        symptoms.one_unit,
        "the cell `bytes_and_peak`",
        "week04.step",
        ("pytorch/pytorch#73809", "facebookresearch/fairscale#971"),
        (M,),
    ),
    Exhibit(
        "{activation_bytes:.1f} times the activations, {attention_flops:.0f} times the FLOPs",
        "Calculators have bugs, too. For Llama 3 70B this one predicts {activation_bytes:.1f} times the activations "
        "that a fused attention keeps, {state_bytes:.2f} of the bytes of model states and {attention_flops:.0f} times "
        "the FLOPs of attention: the thread gives an example with a utilization of 121%.",
        symptoms.calculator,
        "the cell `calculator_with_bugs`",
        "week10.calculator",
        ("NVIDIA/Megatron-LM#831", "AI-Hypercomputer/maxtext#1972", "AI-Hypercomputer/maxtext#1988"),
        (M, R),
    ),
    # ---- the type is wrong ----
    Exhibit(
        "40,840 tokens, rounded to the mean",
        "An expert has 40,840 tokens, the mean is 40,900, and its bias should move by {right:+.0f} step. Counted in "
        "bf16, where neighboring numbers of that size are {step} apart, it moves by {found:.0f}. In the thread, two "
        "runs on the same batch moved it in *opposite* directions.",
        symptoms.counts_in_bf16,
        "`tests/museum/symptoms.py`",
        "week11.balance",
        ("NVIDIA/Megatron-LM#7081",),
        (T,),
    ),
)

WITHOUT_A_THREAD = ("week01.same-order", "week02.average-gradients", "week07.neighbours")
