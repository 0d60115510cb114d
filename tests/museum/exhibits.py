"""The bug museum's exhibits: a number, what happened, the public threads, and the checks that find the bug.

A text has its numbers in braces; `tests.museum.symptoms` measures them. The fix of a graded hunt is not given.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tests.museum import symptoms
from tests.museum.symptoms import Numbers


class Check(Enum):
    """A kind of check, and what it does."""

    RESULT = "compare outputs and loss with one process, and rank with rank"
    GRADIENT = "compare gradients, their norm and the weights after a step with one process, and rank with rank"
    BYTES = "compare what each rank sent with the formula"
    ORDER = "compare the ranks' calls and messages, by name, before they complete"
    MEMORY = "compare what each rank holds with the formula"
    TYPE = "state for every tensor and axis whether it is whole, split or a partial sum, and its dtype"


@dataclass(frozen=True)
class Exhibit:
    """One bug. title, story: texts with numbers in braces. found_by: the cheapest check first. hunt: an exercise, or
    the place where the bug can be observed. seen: the cell, lab or test that has the code. threads: as `owner/name#1`.
    exact: errors of the numbers that the text calls exact.
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
        """Such as "week05"."""
        return self.hunt.split(".")[0]


R, G, B, O, M, T = Check  # noqa: E741

EXHIBITS = (
    # ---- the result is wrong ----
    Exhibit(
        "{t4:.0f} biases too many",
        "A row-parallel layer sums the ranks' partial outputs. Every rank also added the bias, which is not partial: "
        "the output is off by {t2:.0f} bias on two ranks and by {t4:.0f} on four. Three codebases did this "
        "independently, between 2021 and 2026. On one GPU, where most tests run, the layer is exact.",
        symptoms.bias_added_by_all,
        "the cell `bias_on_every_rank`",
        "week05.mlp",
        ("PaddlePaddle/Paddle#35186", "huggingface/text-generation-inference#1036", "Wenyueh/MinivLLM#80"),
        (R, T),
    ),
    Exhibit(
        "Right, plus {t2:.4f}",
        "A loss for *split* logits was given gathered ones. The shapes fit, and every rank adds up all exponentials. "
        "The loss is too large by {t2:.4f} on two ranks and {t4:.4f} on four: log 2 and log 4, whatever the logits. An "
        "error with a closed formula is a gift: which formula has a log t in it?",
        symptoms.log_of_t,
        "`both_bugs` of lab 2, in the megatron-core that is installed in `.venv`",
        "week05.cross-entropy",
        ("NVIDIA/Megatron-LM#7452",),
        (R, T),
        needs_megatron=True,
    ),
    Exhibit(
        "One loss, two values: {split[0]:.4f} and {split[1]:.4f}",
        "This is label smoothing over a split vocabulary. On one process the mean loss is {right:.4f}; on two ranks, "
        "one reports {split[0]:.4f} and the other {split[1]:.4f}. It was reported in March 2024, and the version of "
        "megatron-core that lab 2 installs still has the bug. Smoothing is off by default, so few people notice.",
        symptoms.local_smoothing,
        "`both_bugs` of lab 2, in the megatron-core that is installed in `.venv`",
        "week05.cross-entropy",
        ("NVIDIA/Megatron-LM#737", "NVIDIA/Megatron-LM#7464", "NVIDIA/Megatron-LM#7452"),
        (R, T),
        needs_megatron=True,
    ),
    Exhibit(
        "{alike:.0%} agreement where chance gives {right:.0%}",
        "Two ranks hold different neurons and should drop different ones. Their masks agreed in {alike:.0%} of all "
        "positions; independent masks agree in {right:.0%}. The line was written in June 2023 and was in a release in "
        "October 2024. Running with another seed does not show it: compare the ranks.",
        symptoms.same_masks,
        "the cell `steps_as_found`",
        "week05.dropout",
        ("NVIDIA/Megatron-LM#1256",),
        (R,),
    ),
    Exhibit(
        "Ten tokens, {counted} counted",
        "A router counts the tokens of its experts in the forward. When the layer is recomputed, its forward runs "
        "twice: {tokens} tokens are counted as {counted}. A bias that moves by the sign does not change. The numbers "
        "in the logs do.",
        symptoms.counted_twice,
        "the cell `class Counting`",
        "week11.flow",
        ("pytorch/torchtitan#1593",),
        (R,),
    ),
    Exhibit(
        "{wrong} label in {of} is wrong",
        "A zig-zag split gives rank 0 the beginning and the end of a sequence. Labels shifted *after* the split are "
        "{found}; the correct ones are {right}. There is {wrong} wrong label, at the seam. The longer the sequence, "
        "the smaller the harm, and the harder it is to see.",
        symptoms.shifted_after_the_split,
        "`zig_zag` of the week's page",
        "week14.batch",
        ("NVIDIA-BioNeMo/bionemo-recipes#1449",),
        (R,),
    ),
    Exhibit(
        "A perfect router, punished: {found:.0f} instead of {right:.0f}",
        "All tokens of rank 0 choose expert 0, and all of rank 1 choose expert 1. Over both ranks that is perfectly "
        "balanced, and the balance loss is {right:.0f}, its minimum. Each rank alone reports {found:.0f}. Related bugs "
        "scaled the same loss by the tensor-parallel size, by the microbatch size, or by the number of microbatches: "
        "*another mesh, another model*.",
        symptoms.own_counts,
        "`balance_loss` of the week's page",
        "week11.flow",
        ("NVIDIA/Megatron-LM#5047", "NVIDIA/Megatron-LM#5798", "NVIDIA-NeMo/Automodel#3359"),
        (R, G),
    ),
    # ---- the result is right, the gradient is not ----
    Exhibit(
        "Loss {loss:.3f}, gradient {gradient:.3f}",
        "Both should be 1.000. A pipeline of four microbatches logs exactly the loss of one process, and learns from a "
        "gradient that is {gradient:.0f} times too large. With Adam even the curve looks right. Clipping notices.",
        symptoms.divided_for_the_log,
        "the cell `step_with_a_bug`",
        "week07.pipeline-step",
        ("pytorch/torchtitan#2972",),
        (G,),
    ),
    Exhibit(
        "{t4:.0f} times too large, and Adam does not notice",
        "Experts' gradients were ep times too large: {t2:.0f} times on two ranks, {t4:.0f} times on four. Adam divides "
        "a gradient by its size, so its step is exactly right. The bug was found again and again, in at least three "
        "codebases.",
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
        "A router's balance loss is attached to its output's gradient, and the attached value was dropped: it "
        "contributed {as_found:.0f} to the router's gradient. Fixing that reveals the next mistake, which the first "
        "had hidden: with 64 tokens the contribution is {returned:,.0f} times too large. Bugs come in stacks. Measure "
        "again after a fix.",
        symptoms.loss_that_never_flows,
        "the cell `asked_for`",
        "week11.flow",
        ("NVIDIA-NeMo/Automodel#1408", "NVIDIA-NeMo/Automodel#1412"),
        (G,),
    ),
    Exhibit(
        "One weight, two uses, {shared:.0%} of its gradient",
        "The first and the last layer share a weight, like GPT's embedding. Output: {output:.3f} of what it should be. "
        "The other weight's gradient: {other:.3f}. The shared one's: {shared:.3f}. PyTorch's FSDP2 had a subtler bug: "
        "if the vocabulary did not divide over the ranks, the last rank's rows were never updated.",
        symptoms.shared_weight,
        "the cell `step_with_a_bug`",
        "week04.tied",
        ("pytorch/pytorch#176076", "pytorch/pytorch#176257"),
        (G,),
    ),
    Exhibit(
        "Two wrong models, both with a *lower* loss",
        "Sequence parallelism that forgot the norms. After 40 steps one process has a loss of {right:.4f}; these two "
        "ranks have {loss:.4f}, which looks like progress. Their copies of the gains differ by {apart:.2f}. One of the "
        "threads reports a loss that stayed near 8.",
        symptoms.partial_norms,
        "the cell `train`, with `nothing`",
        "week06.norm",
        ("NVIDIA/Megatron-LM#1446", "EleutherAI/gpt-neox#1257", "NVIDIA/TransformerEngine#435"),
        (G, B, T),
    ),
    Exhibit(
        "Copies that agree, and are wrong by {off:.2f}",
        "The next attempt averages the norms' gradients. Now the ranks' copies differ by {apart:.0f}, so comparing "
        "ranks finds nothing. Compared with one process, the gains are off by {off:.2f}. Agreement is not correctness.",
        symptoms.averaged_norms,
        "the cell `train`, with `averaged`",
        "week06.norm",
        ("EleutherAI/gpt-neox#1259",),
        (G,),
    ),
    Exhibit(
        "A gradient of {t2:.0f} instead of 1",
        "The opposite mistake: after a gather every rank does *the same* work, and the backward adds up t equal "
        "gradients: {t2:.0f} on two ranks, {t4:.0f} on four. The forward is a copy and cannot be wrong.",
        symptoms.gathered_twice,
        "the cell `same_work_everywhere`",
        "week06.norm",
        ("NVIDIA/Megatron-LM#7452",),
        (G, T),
    ),
    Exhibit(
        "Loss off by {loss:.0f}, gradient by {gradient:.0%}",
        "Recomputation frees activations and runs the layer again. With dropout, and without restoring the random "
        "state, the second run draws different masks: the loss belongs to one network, the gradient to another. The "
        "thread reports a run whose loss after 150 steps was 2.49 with recomputation and 2.19 without.",
        symptoms.masks_drawn_again,
        "the cell `loss_and_gradient`",
        "week06.recompute",
        ("allenai/OLMo-core#828",),
        (G,),
        exact=("loss",),
    ),
    Exhibit(
        "{transposed} of {contiguous} numbers added up",
        "megatron-core's `_reduce` adds up the ranks' copies of a tensor: {contiguous} numbers of {contiguous} if it "
        "is contiguous, {transposed} of {contiguous} if it is transposed. All bytes are sent, no error is raised, and "
        "the sum is thrown away. It happened in a backward, where transposes are common and nobody prints values.",
        symptoms.unreduced,
        "`_reduce` of the megatron-core that is installed in `.venv`",
        "week05.operators",
        ("NVIDIA/Megatron-LM#5337", "NVIDIA/Megatron-LM#5338", "NovaSky-AI/SkyRL#1886"),
        (G,),
        needs_megatron=True,
    ),
    Exhibit(
        "{found[0]:.1f} and {found[1]:.1f}: two replicas, two models",
        "Two DDP replicas should both hold {right[0]:.1f}, the mean. A zero-bubble schedule splits the backward in "
        "two, and they keep {found[0]:.1f} and {found[1]:.1f}. DDP was not broken: its hooks were never called. "
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
        "{norms[1]:.0f}. The result should have length 1; it has length {after:.2f} and another direction: "
        "`{clipped}`. The loss still falls.",
        symptoms.norm_of_a_slice,
        "the cell `clip_as_found`",
        "week03.clip",
        ("pytorch/pytorch#170862", "sgl-project/SpecForge#663"),
        (G, T),
    ),
    Exhibit(
        "{found:.2f} instead of {right:.2f}: one LayerNorm, counted twice",
        "A norm over several axes must add up the parts of a split matrix over the ranks, but not the copies. This "
        "code adds up both: {found:.2f}, although the model's norm is {right:.2f}. With more ranks it clips more, so "
        "two meshes that should agree do not.",
        symptoms.counted_on_every_rank,
        "the cell `norm_as_found`",
        "week09.whole-norm",
        ("pytorch/pytorch#88955", "ByteDance-Seed/VeOmni#184"),
        (G, T),
    ),
    Exhibit(
        "Four ranks, {different} opinions",
        "The reverse: experts on other ranks are left out of the norm. Each of four ranks finds a different share of "
        "it, from {least:.0%} to {most:.0%}, and clips the *same* dense weight by a different factor. Copies drift "
        "apart.",
        symptoms.norm_without_experts,
        "`tests/shardlab/expert_parallel/test_published_faults.py`",
        "week12.gradients",
        ("NVIDIA/Megatron-LM#5916", "deepspeedai/DeepSpeed#8475"),
        (G, T),
    ),
    Exhibit(
        "dv exact, dq off by {dq:.0%}",
        "The backward of a ring. The output and dv are exact, but dq is off by {dq:.0%} and dk by {dk:.0%}. A test "
        "that checks only dv passes.",
        symptoms.sums_of_a_block,
        "the cell `own_sums`",
        "week14.ring-backward",
        ("tenstorrent/tt-metal#53205", "tenstorrent/tt-metal#53216"),
        (G,),
        exact=("output", "dv"),
    ),
    Exhibit(
        "Forward exact, dk off by {dk:.0%}",
        "Another ring, another backward: the output is exact, but dq is off by {dq:.0%}, dk by {dk:.0%} and dv by "
        "{dv:.0%}. Nothing is NaN, and for generating images, where there is no backward, the code was perfect.",
        symptoms.first_steps_keys,
        "the cell `saved`",
        "week14.ring-backward",
        ("huggingface/diffusers#14265", "huggingface/diffusers#14274"),
        (G,),
        exact=("output",),
    ),
    Exhibit(
        "{c2} on two ranks, {c4} on four",
        "One label of the sequence counts. Each rank takes the mean over its own labels, and then the ranks take the "
        "mean of their means: the gradient is {c2} of what it should be on two ranks and {c4} on four. When every "
        "label counts on every rank, the same code is exact.",
        symptoms.mean_of_means,
        "the cell `lone_label`",
        "week14.batch",
        ("NVIDIA/Megatron-LM#7513", "NVIDIA/Megatron-LM#7452"),
        (G, T),
    ),
    # ---- the order is wrong ----
    Exhibit(
        "{bytes:,} bytes that never leave",
        "Two ranks both send first and receive second; {waiting} of 2 wait forever. On some transports short messages "
        "fit into a buffer, and the same code works until a message grows.",
        symptoms.both_send_first,
        "the cell `both_send_first`",
        "week01.exchange",
        ("meta-pytorch/torchrec#4472",),
        (O,),
    ),
    Exhibit(
        "{found:.0f} instead of {right:.0f}: another parameter's gradient",
        "Rank 0 did not use parameter 1, and skipped it. Its *next* gradient met rank 1's gradient of parameter 1. "
        "They had the same shape, so they were added: {found:.0f} instead of {right:.0f}, and only the call after that "
        "hangs. A collective has no name.",
        symptoms.unused_parameter,
        "the cell `skip_what_is_missing`",
        "week02.unused",
        ("pytorch/pytorch#68803",),
        (O, G),
    ),
    Exhibit(
        "{waiting} of 4 ranks wait, before the first loss",
        "All ranks must create groups in the same order. Two ranks began with the rows of the mesh and two with its "
        "columns; all {waiting} wait.",
        symptoms.groups_in_two_orders,
        "the cell `rows_or_columns`",
        "week09.same-order",
        ("pytorch/pytorch#25390",),
        (O,),
    ),
    Exhibit(
        "{waiting} rank waits for one that had nothing to do",
        "No token chose rank 1's experts. The rank returned an empty tensor of the right shape and skipped the rest, "
        "and {waiting} rank waits for it in the backward. Every number of the forward is right. The bug needs an "
        "unlucky batch, so it may first appear on day three.",
        symptoms.rank_without_rows,
        "the cell `as_found`",
        "week12.empty-rank",
        ("PaddlePaddle/PaddleFormers#3010", "NVIDIA/Megatron-LM#4851", "NVIDIA-NeMo/Automodel#3680"),
        (O,),
    ),
    Exhibit(
        "It trains: {start:.2f} to {found:.2f}. It should reach {right:.2f}",
        "An activation and a gradient of the same shape were swapped. There is no error and no hang: after 25 steps "
        "the loss fell from {start:.2f} to {found:.2f}, where the right order reaches {right:.2f}. NCCL has no tags, "
        "so only the order distinguishes two messages.",
        symptoms.swapped_message,
        "the cells `swap` and `train`",
        "week13.neighbours",
        ("pytorch/pytorch#94819", "pytorch/pytorch#125079"),
        (O, R, G),
    ),
    # ---- the memory is wrong ----
    Exhibit(
        "{times:.0f} times the memory, not one byte more on the wire",
        "ZeRO-3 with one unit around the whole model. Bytes sent: {sent:.2f} of what {units} units send. The loss is "
        "right, and the slices are small. But at the peak a rank holds {times:.0f} times as many whole weights. This "
        "is what you get if you name no unit.",
        symptoms.one_unit,
        "the cell `bytes_and_peak`",
        "week04.step",
        ("pytorch/pytorch#73809", "facebookresearch/fairscale#971"),
        (M,),
    ),
    Exhibit(
        "{activation_bytes:.1f} times the activations, {attention_flops:.0f} times the FLOPs",
        "Calculators have bugs, too. For Llama 3 70B this one reports {activation_bytes:.1f} times the activations "
        "that fused attention keeps, {state_bytes:.2f} of the bytes of states and {attention_flops:.0f} times the "
        "FLOPs of attention: the thread gives an example with a utilization of 121%.",
        symptoms.calculator,
        "the cell `calculator_with_bugs`",
        "week10.calculator",
        ("NVIDIA/Megatron-LM#831", "AI-Hypercomputer/maxtext#1972", "AI-Hypercomputer/maxtext#1988"),
        (M, R),
    ),
    # ---- the type is wrong ----
    Exhibit(
        "40,840 tokens, rounded to the mean",
        "An expert has 40,840 tokens, the mean is 40,900, and its bias should move by {right:+.0f} step. In bf16, "
        "where neighboring numbers of that size are {step} apart, it moves by {found:.0f}. In the thread, two runs of "
        "one batch moved it in *opposite* directions.",
        symptoms.counts_in_bf16,
        "`tests/museum/symptoms.py`",
        "week11.balance",
        ("NVIDIA/Megatron-LM#7081",),
        (T,),
    ),
)

WITHOUT_A_THREAD = ("week01.same-order", "week02.average-gradients", "week07.neighbours")
