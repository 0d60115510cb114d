"""Week 16: reference solutions by hand and against the planner, the changes on real ranks, and the page's claims."""

import inspect
import math
from random import Random

import pytest
import shardlab
import torch
import torch.distributed as dist
from shardlab import costs
from shardlab.costs import failures, planning, sizes
from shardlab.costs.axis_traffic import traffic_of_step
from shardlab.costs.memory.stage import activation_bytes, in_flight_layers, layer_activation_bytes
from shardlab.costs.validation.published import read_runs
from torch.distributed.elastic.agent.server import api as elastic

from autograder.authoring import notebooks
from autograder.weeks.week16_capstone_design import _design, design, interval, published, review, sheet
from autograder.weeks.week16_capstone_design.reading import READING

GPT = costs.find_model("gpt3-175b")
EVERY = costs.Layout(
    tp=4,
    pp=4,
    dp=8,
    cp=2,
    microbatch=2,
    num_microbatches=8,
    virtual=2,
    zero=1,
    sequence_parallel=True,
    recompute="full",
)


# ---- the numbers of a design -----------------------------------------------------------------------------------------


def test_the_small_case_of_the_page():
    model = {"parameters": 100, "layers": 2, "hidden": 4, "heads": 2, "kv": 2, "sequence": 8}
    layout = {"tp": 1, "cp": 2, "pp": 1, "dp": 1, "b": 1, "m": 1, "chunks": 1, "recompute": False}
    assert _design.sent_bytes(model, layout) == {"tp": 0, "cp": 192, "pp": 0, "dp": 300}
    assert _design.gpu_bytes(model, layout) == 100 * (6 + 12 / 2) + 2 * 34 * 4 * 4
    gpu = {"flops": 600.0, "nvlink": 96.0, "network": 30.0, "per_server": 8}
    assert _design.step_seconds(model, layout, gpu) == pytest.approx(4 + 2 + 300 / 96)  # both ranks in one server
    assert _design.step_seconds(model, layout, gpu | {"per_server": 1}) == pytest.approx(4 + 192 / 30 + 10)


@pytest.mark.parametrize("change", [{}, {"recompute": "none"}, {"virtual": 1}, {"cp": 1}, {"pp": 1, "virtual": 1}])
def test_bytes_by_axis_are_the_packages(change):
    layout = costs.Layout(**(vars(EVERY) | change))
    ours = _design.sent_bytes(sizes.model_sizes(GPT), sizes.layout_sizes(layout))
    step = traffic_of_step(GPT, layout, 1 if layout.pp > 1 else 0)
    assert ours["tp"] == pytest.approx(step.tp_forward + step.tp_backward)
    assert ours["cp"] == pytest.approx(step.cp_forward + step.cp_backward)
    assert ours["pp"] == pytest.approx(step.pp_forward + step.pp_backward)
    assert ours["dp"] == pytest.approx(1.5 * step.dp, rel=0.06)  # fp32 gradients; embeddings are shared out


@pytest.mark.parametrize("change", [{}, {"recompute": "none"}, {"virtual": 1}, {"microbatch": 1}])
def test_activations_are_the_packages(change):
    layout = costs.Layout(**(vars(EVERY) | {"cp": 1} | change))
    given = sizes.model_sizes(GPT), sizes.layout_sizes(layout)
    states = _design.shard(*given) * (6 + 12 / layout.state_sharers)
    whole = activation_bytes(GPT, layout)
    assert _design.gpu_bytes(*given) - states == pytest.approx(whole, rel=0.01)


def test_llama_s_own_step_is_met():
    run = next(run for run in read_runs() if run.id == "LLAMA3-405B-16384-cp1")
    given = sizes.model_sizes(run.model), sizes.layout_sizes(run.layout), _design.H100
    assert run.step_seconds and _design.step_seconds(*given) == pytest.approx(run.step_seconds, rel=0.10)
    assert _design.bill(*given, 15.6e12)[0] == pytest.approx(0.41, abs=0.01)  # what table 4 says


def test_the_page_explains_why_the_planner_counts_fewer_bytes():
    run = next(run for run in read_runs() if run.id == "LLAMA3-405B-16384-cp1")
    model, layout = sizes.model_sizes(run.model), sizes.layout_sizes(run.layout)
    theirs, numbers = planning.peak_memory(run.model, run.layout, gradient_bytes=4), 8192 * 16384 / 8
    held, kept = in_flight_layers(run.model, run.layout, 1), layer_activation_bytes(run.model, run.layout) / numbers
    gradients = 4 * _design.shard(model, layout) - theirs.states.gradients
    explained = gradients + numbers * (34 * (126 * (1 + 15 / (16 * 7)) - held) + (34 - kept) * held)
    assert _design.gpu_bytes(model, layout) - theirs.total == pytest.approx(explained, rel=0.01)
    assert (held, kept) == (128, 31.75)


def test_the_page_explains_why_the_planner_is_slower():
    model, gpu = costs.find_model("llama3-70b"), costs.find_accelerator("h100")
    layout = costs.Layout(tp=2, cp=4, pp=8, dp=8, num_microbatches=128, virtual=2, zero=1, sequence_parallel=True)
    mine = _design.step_seconds(sizes.model_sizes(model), sizes.layout_sizes(layout), _design.H100)
    kinds, step = planning.work_by_kind(model, layout, gpu), planning.seconds_of(model, layout, gpu)
    assert step.total / mine == pytest.approx(1.3, abs=0.01)
    work = 6 * costs.num_parameters(model) * 1024 * 8192 / (512 * _design.H100["flops"])
    assert kinds.pop("matrix products") == pytest.approx(work, rel=0.06)
    ends = 6 * 2 * model.vocab * model.hidden * 1024 * 8192 / (512 * _design.H100["flops"])
    assert sum(kinds.values()) - ends > 0.9 * (step.total - mine)  # `ends`: mine spreads them over the stages


def test_the_table_of_intervals():
    rows = [(tau, 0.25 / tau, tau / 16) for tau in (0.5, 2, 8)]
    assert [round(100 * (writing + again)) for _, writing, again in rows] == [53, 25, 53]
    assert interval.expected({"part": "best_interval", "save": 900, "between": 8 * 3600}) == 2 * 3600


def test_goodput_of_the_page_is_that_of_the_report():
    between = failures.mean_seconds_between(16384, failures.mean_seconds_of_one(16384, 54 * 86400, 419))
    save = failures.checkpoint_bytes(costs.num_parameters(costs.find_model("llama3-405b"))) / 2e12
    assert failures.goodput(failures.best_interval(save, between), save, between, 600) > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_layout_is_drawn(seed):
    cases = [case["layout"] for case in sheet.CHECK.draw(Random(seed)) if case["part"] == "gpu_bytes"]
    assert any(one["pp"] > one["m"] for one in cases) and any(one["recompute"] for one in cases)
    assert {one["chunks"] > 1 for one in cases} == {True, False}
    for axis in ("tp", "cp", "pp", "dp"):
        assert any(one[axis] > 1 and math.prod(one[a] for a in ("tp", "cp", "pp", "dp")) == one[axis] for one in cases)


# ---- published rows --------------------------------------------------------------------------------------------------


def test_our_estimate_is_within_a_tenth_and_a_constant_is_not():
    for case in published.CHECK.draw(Random(0)):
        links = [
            _design.step_seconds(one["model"], one["layout"], one["gpu"] | {"flops": math.inf})
            for one in (case["known"], case["run"])
        ]
        work = [
            _design.step_seconds(one["model"], one["layout"], one["gpu"] | {"flops": 1.0}) - link
            for one, link in zip((case["known"], case["run"]), links, strict=True)
        ]
        reached = work[0] / (case["known"]["seconds"] - links[0])
        assert 4.5e13 < reached < 2.3e14
        assert links[1] + work[1] / reached == pytest.approx(case["seconds"], rel=published.WITHIN)
    off = [case["known"]["seconds"] / case["seconds"] - 1 for case in published.CHECK.draw(Random(0))]
    assert sum(abs(error) > published.WITHIN for error in off) >= 8


# ---- the challenge ---------------------------------------------------------------------------------------------------


def test_the_brief_of_the_page_has_several_designs_and_none_is_the_fastest():
    found = [(design.document(design.BRIEF, layout), layout) for layout in design.layouts(design.BRIEF)]
    fit = [one for one in found if one[0]["gpu_bytes"] <= design.H100["memory"] and one[0]["days"] <= 45]
    best, layout = min(fit, key=lambda one: one[0]["dollars"])
    assert best["dollars"] == design.cheapest(design.BRIEF) and _design.num_gpus(layout) == 512
    assert min(fit, key=lambda one: one[0]["days"])[0]["dollars"] > 1.1 * best["dollars"]
    assert len({_design.num_gpus(layout) for _, layout in fit}) == 3


@pytest.mark.parametrize("seed", range(5))
def test_drawn_briefs_bind(seed):
    """First, the fewest GPUs meet the deadline; second, only the most do; third, the best does not fit in memory."""
    roomy, late, tight = (case["brief"] for case in design.CHECK.draw(Random(seed)) if case["part"] == "cheapest")
    for brief in (roomy, late, tight):
        assert design.cheapest(brief) > 0
    assert (
        min(design.document(late, one)["days"] for one in design.layouts(late) if _design.num_gpus(one) < 512)
        > (late["days"])
    )
    free = tight | {"gpu": tight["gpu"] | {"memory": math.inf}}
    assert design.cheapest(free) < design.cheapest(tight)


# ---- the review ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def changes():
    """The found code and the changes, as the page defines them."""
    space = {"torch": torch, "dist": dist}
    for cell in notebooks.read_source("week16").cells:
        if cell.cell_type == "code" and any(f"def {name}(change" in cell.source for name in ("norm", "mean", "scale")):
            exec(cell.source, space)
        if cell.cell_type == "code" and any(f"def {name}(change" in cell.source for name in ("smooth", "after_next")):
            exec(cell.source, space)
    return space


def seen_by_ranks(code, change, n):
    """The wrong code's result for a case on these ranks, one number per rank."""
    rank = dist.get_rank()
    wrong = "found" if review.VERDICTS[change][0] else change
    if change in "ab":
        gradients = [torch.tensor([value]).sqrt() for value in (n["sinks"][rank], n["rest"])]
        return code["norm"](wrong, *gradients).item()
    if change in "cd":
        losses = torch.full((n["counts"][rank],), n["sums"][rank] / n["counts"][rank])
        return code["mean"](wrong, losses, torch.ones_like(losses)).item()
    if change == "e":
        return code["scale"](wrong, torch.tensor(n["counts"][rank]))[0].item()
    if change == "f":
        mine, (at, place) = torch.tensor(n["logp"][rank]), divmod(n["target"], len(n["logp"][0]))
        return code["smooth"](wrong, mine, mine[place] if at == rank else torch.zeros(()), n["epsilon"]).item()
    values = [torch.tensor(float(n[name][rank])) for name in ("sums", "counts", "shifted")]
    return code["after_next"](wrong, *values).item()


def of_one_process(change, n):
    if change in "ab":
        return math.sqrt(n["rest"] + sum(n["sinks"]))
    if change in "cd":
        return sum(n["sums"]) / sum(n["counts"])
    if change == "e":
        return n["counts"][n["rank"]]
    if change == "f":
        return review.smoothed(n, len(n["logp"]) * len(n["logp"][0]))
    return sum(n["sums"]) / sum(n["shifted"])


@pytest.mark.parametrize("ranks", [2, 3])
def test_symptoms_are_what_real_ranks_show(changes, ranks):
    cases = review.drawn(Random(ranks), ranks)
    code = {name: changes[name] for name in ("norm", "mean", "scale", "smooth", "after_next")}

    def run():
        return [seen_by_ranks(code, case["change"], case) for case in cases]

    for case, seen in zip(cases, zip(*shardlab.run(run, ranks=ranks), strict=True), strict=True):
        change, right = case["change"], of_one_process(case["change"], case)
        wrong = seen[0]
        if change in "cd":
            wrong = sum(seen) / ranks
        elif change == "e":
            wrong = seen[case["rank"]]
        elif change == "g":
            wrong = sum(seen) / sum(case["counts"])
        assert wrong / right == pytest.approx(review.symptom(change, case), rel=1e-4)


def test_accepted_changes_give_what_one_process_gives(changes):
    code = {name: changes[name] for name in ("norm", "mean", "after_next")}
    cases = {case["change"]: case for case in review.drawn(Random(5), 3)}

    def run():
        rank = dist.get_rank()
        norms = [torch.tensor([value]).sqrt() for value in (cases["a"]["sinks"][rank], cases["a"]["rest"])]
        losses = torch.full((cases["d"]["counts"][rank],), cases["d"]["sums"][rank] / cases["d"]["counts"][rank])
        pieces = [torch.tensor(float(cases["g"][name][rank])) for name in ("sums", "counts", "shifted")]
        return [
            code["norm"]("a", *norms).item(),
            code["mean"]("d", losses, torch.ones_like(losses)).item(),
            code["after_next"]("g", *pieces).item(),
        ]

    norms, means, added = zip(*shardlab.run(run, ranks=3), strict=True)
    assert norms == pytest.approx([of_one_process("a", cases["a"])] * 3)
    assert sum(means) / 3 == pytest.approx(of_one_process("d", cases["d"]))
    assert sum(added) / sum(cases["g"]["counts"]) == pytest.approx(of_one_process("g", cases["g"]))


@pytest.mark.parametrize("seed", range(20))
def test_every_change_is_drawn_and_no_symptom_is_one(seed):
    cases = review.CHECK.draw(Random(seed))
    assert [case["change"] for case in cases] == list("abcdefg") * 3
    off = [abs(review.symptom(case["change"], case) - 1) for case in cases]
    assert min(off) > 2e-4, cases[off.index(min(off))]  # else a guess of 1 would be right


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_what_the_reading_questions_ask_is_so():
    loop = inspect.getsource(elastic.SimpleElasticAgent._invoke_run)
    healthy = loop.split(f"WorkerState.{READING['not_counted']}:")[1]
    assert "_restart_workers(" in healthy and "_remaining_restarts -= 1" not in healthy
    restart = inspect.getsource(elastic.SimpleElasticAgent._restart_workers)
    places = [restart.index(f"self.{name}(") for name in READING["order"]]
    assert places == sorted(places)
    assert inspect.signature(elastic.WorkerSpec).parameters["max_restarts"].default == READING["default"]


@pytest.mark.parametrize(
    ("exercise", "name", "points", "sentence"),
    [
        ("week16.sheet", "cp_copies_nothing", 1, "Right: sent_bytes."),
        ("week16.bill", "hfu", 1, "Right: step_seconds."),
        ("week16.interval", "first_order", 1, "Right: best_interval."),
        ("week16.design", "the_fastest", 1, "cheaper design fits and meets the deadline"),
        ("week16.review", "contiguous_copies", 2.4, "Change e is not reviewed correctly yet"),
        ("week16.review", "accepts_everything", 0.6, "Right: word after next."),
        ("week16.published", "constant_utilisation", 0, "the limit is 10%"),
    ],
)
def test_what_a_student_reads(judged, exercise, name, points, sentence):
    verdict = judged(exercise, name)
    assert verdict.points == pytest.approx(points, abs=0.01) and sentence in verdict.text


def test_the_sample_choice_names_the_numbers_of_its_design():
    """The cheapest design of each cluster that fits, and the deadline."""
    best: dict[int, dict[str, float]] = {}
    for layout in design.layouts(design.BRIEF):
        one, gpus = _design.document(design.BRIEF, layout), _design.num_gpus(layout)
        if one["gpu_bytes"] <= _design.H100["memory"]:
            best[gpus] = min(best.get(gpus, one), one, key=lambda document: document["dollars"])
    days, dollars = ({gpus: one[name] for gpus, one in best.items()} for name in ("days", "dollars"))
    assert [round(days[gpus]) for gpus in (256, 512, 1024)] == [70, 36, 19]
    assert [round(100 * (dollars[gpus] / dollars[512] - 1)) for gpus in (256, 1024)] == [-2, 4]
    text = " ".join("\n".join(cell.source for cell in notebooks.read_source("week16_capstone_design").cells).split())
    assert "With 256 GPUs it would be 2% cheaper but take 70 days. With 1,024 it takes 19 days" in text
    assert "so 36 days mean 33 to 39" in text
