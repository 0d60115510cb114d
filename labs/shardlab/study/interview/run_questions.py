"""Plans, failures and money: weeks 10, 15 and 16."""

from functools import cache

from shardlab.costs import failures
from shardlab.costs.hardware import ACCELERATORS, GIB
from shardlab.costs.layout import Layout
from shardlab.costs.memory.stage import peak_memory
from shardlab.costs.models.flops import hardware_flops_per_token, model_flops_per_token
from shardlab.costs.models.zoo import find_model
from shardlab.costs.planning.planner import GRADIENT_BYTES, seconds_of, usable_bytes
from shardlab.costs.validation.validate import errors_of, measured_runs, predict
from shardlab.study.interview.question import Numbers, Question, Setting

DAY = 86400


def _trillion(setting: Setting) -> Numbers:
    gpu, model = ACCELERATORS["h100"], find_model("gpt-1t")
    layout = Layout(tp=8, pp=64, dp=2, virtual=2, num_microbatches=1024, zero=1, sequence_parallel=True)
    held, step = peak_memory(model, layout, gradient_bytes=GRADIENT_BYTES), seconds_of(model, layout, gpu)
    tokens = 10e12
    own = Setting(model, layout, gpu, tokens)
    sizes = {"gpus": layout.world, "tp": layout.tp, "pp": layout.pp, "dp": layout.dp, "trillions": tokens / 1e12}
    return sizes | {"gib": held.total / GIB, "seconds": step.total, "mfu": own.mfu, "years": own.days / 365}


@cache
def _median_error() -> float:
    """The median error of step times of published runs, with constants that were fitted on the same runs."""
    return errors_of(measured_runs(), predict).median


def _own_plan(setting: Setting) -> Numbers:
    layout = setting.layout
    sizes = {axis: getattr(layout, axis) for axis in ("tp", "cp", "pp", "dp")}
    held = {"gib": setting.memory.total / GIB, "usable": usable_bytes(setting.gpu) / GIB}
    held["error"] = _median_error()
    return sizes | held | {"seconds": setting.step.total, "mfu": setting.mfu, "name": setting.model.name}


def _seconds_go(setting: Setting) -> Numbers:
    parts = vars(setting.step)
    largest = sorted((name for name in parts if name != "compute"), key=parts.__getitem__)[-2:]
    total = setting.step.total
    numbers = {"compute": parts["compute"] / total, "total": total}
    return numbers | {
        key: value
        for rank, name in enumerate(reversed(largest))
        for key, value in ((f"name{rank}", name), (f"share{rank}", parts[name] / total))
    }


def _mfu_or_hfu(setting: Setting) -> Numbers:
    more = hardware_flops_per_token(setting.model, "full") / model_flops_per_token(setting.model)
    return {"mfu": setting.mfu, "hfu": setting.mfu * more, "more": more - 1}


def _days(setting: Setting) -> Numbers:
    hours = setting.layout.world * 24 * setting.days
    numbers = {"days": setting.days, "hours": hours / 1e6, "cost": hours * setting.dollars / 1e6}
    per_cent = hours * setting.dollars / 1e6 * (1 - setting.mfu / (setting.mfu + 0.01))
    return numbers | {"dollars": setting.dollars, "tokens": setting.tokens / 1e12, "point": per_cent}


def _published_cost(setting: Setting) -> Numbers:
    hours, dollars, tokens = 2.664e6, 2.0, 14.8e12  # DeepSeek-V3, arXiv 2412.19437, table 1: pre-training alone
    per_trillion, gpus = hours / tokens * 1e12, 2048
    return {
        "hours": hours / 1e6,
        "tokens": tokens / 1e12,
        "dollars": dollars,
        "cost": hours * dollars / 1e6,
        "each": per_trillion / 1e3,
        "gpus": gpus,
        "days": per_trillion / gpus / 24,
    }


def _llama_failures(setting: Setting) -> Numbers:
    run = failures.LLAMA3
    one = failures.mean_seconds_of_one(run["gpus"], run["days"] * DAY, run["failures"])
    between = failures.mean_seconds_between(run["gpus"], one)
    quiet = failures.quiet_share(DAY, between)
    return dict(run) | {"one": one / DAY / 365, "between": between / 3600, "quiet": 100 * quiet}


def _own_failures(setting: Setting) -> Numbers:
    expected = failures.expected_failures(DAY * setting.days, setting.between)
    numbers = {"gpus": setting.layout.world, "between": setting.between / 3600, "expected": expected}
    return numbers | {"hours": setting.hours_of_one, "days": setting.days}


def _interval(setting: Setting) -> Numbers:
    save, between, restart = setting.save_seconds, setting.between, setting.restart_seconds
    best = failures.best_interval(save, between)
    shares = {
        name: failures.goodput(tau, save, between, restart)
        for name, tau in (("best", best), ("hourly", 3600), ("often", best / 10))
    }
    written = {"save": save, "interval": best / 60, "steps": best / setting.step.total}
    return written | shares | {"terabytes": failures.checkpoint_bytes(setting.parameters) / 1e12}


def _halved(setting: Setting) -> Numbers:
    save, between, restart = setting.save_seconds, setting.between, setting.restart_seconds
    shares = {}
    for name, (delta, again) in {
        "now": (save, restart),
        "save": (save / 2, restart),
        "restart": (save, restart / 2),
    }.items():
        shares[name] = failures.goodput(failures.best_interval(delta, between), delta, between, again)
    return shares | {"better": "The restart" if shares["restart"] > shares["save"] else "The checkpoint"}


RUN = (
    Question(
        "week10",
        "A trillion parameters on {gpus:,} H100: your plan, its memory, its MFU?",
        "TP {tp} inside servers, {pp} stages in chunks, DP {dp}, ZeRO-1: {gib:.0f} GiB on the fullest GPU, "
        "{seconds:.0f} s per step, MFU {mfu:.0%}. I would add right away that {trillions:.0f}T tokens take "
        "{years:.1f} years on so few GPUs. First I would measure one layer with TP {tp} and an all-reduce over two "
        "servers.",
        _trillion,
        own=False,
    ),
    Question(
        "week10",
        "Defend your own layout in two sentences and four numbers.",
        "{name} with TP {tp}, CP {cp}, PP {pp}, DP {dp} needs {gib:.1f} GiB on its fullest GPU, of {usable:.1f} "
        "usable. A step takes {seconds:.2f} s by our cost model, an MFU of {mfu:.1%}. Its error exceeds {error:.0%} "
        "for half of the published runs, so plans that are closer than that are equally good.",
        _own_plan,
    ),
    Question(
        "week10",
        "Where do the seconds of your step go?",
        "{compute:.0%} of {total:.2f} s is computation. The two largest parts of the rest are {name0} with "
        "{share0:.1%} and {name1} with {share1:.1%}. I would reduce the first of them, and only if it is larger than "
        "the error of the cost model.",
        _seconds_go,
    ),
    Question(
        "week10",
        "Somebody reports a utilization of {hfu:.0%} for your model with full recomputation. What is the MFU?",
        "{mfu:.0%}. HFU counts the repeated forward, {more:.0%} more FLOPs; MFU counts only what the model needs. Use "
        "MFU to compare two ways to train the same model.",
        _mfu_or_hfu,
    ),
    Question(
        "week16",
        "{tokens:g}T tokens at ${dollars:.2f} per GPU hour. How long, how much, and what is a point of MFU worth?",
        "{days:.0f} days, {hours:.2f} million GPU hours, ${cost:.2f} million, before failures. One more point of MFU "
        "saves ${point:.2f} million.",
        _days,
    ),
    Question(
        "week16",
        "DeepSeek-V3 reports {hours:.3f} million GPU hours for {tokens} trillion tokens. What does that say per "
        "trillion?",
        "{each:.0f} thousand GPU hours, {days:.1f} days on {gpus:,} GPUs; at ${dollars:.0f} per hour the whole run "
        "costs ${cost:.2f} million. That is the price of only the final run, without experiments, failures and people.",
        _published_cost,
        own=False,
    ),
    Question(
        "week16",
        "{gpus:,} GPUs had {failures} unplanned stops in {days} days. How good is one GPU?",
        "One GPU fails once in {one:.1f} years, and yet the run stops every {between:.1f} hours, because it needs all "
        "of them. A day without a failure has a probability of {quiet:.2f}%. More reliable parts do not help; "
        "recovery does.",
        _llama_failures,
        own=False,
    ),
    Question(
        "week15",
        "How often will your run stop?",
        "With {hours:,.0f} hours between failures of one GPU, a run on {gpus:,} of them stops every {between:.1f} "
        "hours: about {expected:,.0f} times in {days:.0f} days. So nobody restarts it by hand; the run resumes on the "
        "remaining ranks.",
        _own_failures,
    ),
    Question(
        "week16",
        "When do you write checkpoints, and what share of the time is work that lasts?",
        "A checkpoint of {terabytes:.2f} TB takes {save:.1f} s. The square root of twice that times the time between "
        "failures is {interval:.1f} minutes, or about {steps:,.0f} steps; {best:.1%} of the time is then work that "
        "lasts. With hourly checkpoints it would be {hourly:.1%}, with ten times as many {often:.1%}.",
        _interval,
    ),
    Question(
        "week16",
        "You may halve the seconds of a checkpoint or those of a restart. Which?",
        "{better}. Goodput is {now:.2%} now, {save:.2%} with the faster checkpoint at its own best interval, and "
        "{restart:.2%} with the faster restart. Lost time grows with the square root of the checkpoint's seconds, but "
        "linearly with the restart's.",
        _halved,
    ),
)
