"""Rows of published runs, good and bad, and the accuracy of the time model on them, compared with a simple baseline."""

import csv

import pytest
from shardlab.costs.validation import validate
from shardlab.costs.validation.fitting import GUESSED, fit, predict
from shardlab.costs.validation.predictions import ADDED, predicted_rows
from shardlab.costs.validation.published import RUNS, gpu_of, read_rows, run_of
from shardlab.costs.validation.validate import (
    COVERED,
    FACTOR,
    RANK,
    REGRET,
    Errors,
    constant_utilisation,
    errors_of,
    held_out,
    measured_runs,
    measures,
    report,
    summary,
    table,
    uncertain_rank,
)


@pytest.fixture(scope="module")
def runs():
    return measured_runs()


def row(**changes):
    return read_rows()[0] | changes


def test_nearly_every_row_is_understood_and_the_others_say_why(runs):
    done = predicted_rows(read_rows())
    refused = [one for one in done if one["not_predicted"]]
    assert len(refused) <= 5 and all(not one["predicted_step_s"] for one in refused)
    assert len(runs) > 350
    assert all(one["predicted_step_s"] for one in done if one["arch"].endswith("moe") or int(one["cp"] or 1) > 1)


def test_no_reported_number_is_read():
    known = row()
    blind = {k: "" if k.startswith("reported") or k in ("tok_s_gpu", "step_s_derived") else v for k, v in known.items()}
    absurd = known | {"reported_step_s": "1e9", "reported_mfu": "nonsense", "reported_mem_GB": "-4"}
    answers = [[one[name] for name in ADDED] for one in predicted_rows([known, blind, absurd])]
    assert answers[0] == answers[1] == answers[2] and answers[0][-1] == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu": "TPU"}, "unknown GPU 'TPU': use one of A100"),
        ({"n_gpus": "31"}, "but the run has 31 GPUs"),
        ({"layers": "many"}, "not a number"),
        ({"layers": "-3"}, "use 1 or more"),
        ({"tp": "5", "n_gpus": "160"}, "use a tensor-parallel size of 1, 2"),
        ({"global_batch": "100"}, "use a multiple of 512"),
        ({"hidden": "inf"}, "not a number"),
    ],
)
def test_a_bad_row_is_answered_with_a_reason_and_the_others_are_done(changes, reason):
    bad, good = predicted_rows([row(**changes), row()])
    assert reason in bad["not_predicted"] and not good["not_predicted"]


def test_a_missing_column_is_named():
    short = row()
    del short["layers"]
    assert predicted_rows([short])[0]["not_predicted"] == "missing column layers"


def test_a_truncated_mixture_keeps_one_dense_layer():
    small = next(one for one in read_rows() if one["id"].startswith("SIMUMAX-B200-deepseekv2"))
    short = small | {"model": "deepseekv3 (4 layers)", "ffn": "2048 expert (256 top8+1s)"}
    assert run_of(short).model.dense_layers == 1
    assert run_of(short | {"note": "", "layers": "61"}).model.dense_layers == 3


def test_the_file_of_runs_is_whole():
    with RUNS.open() as file:
        assert all(None not in one for one in csv.DictReader(file))
    assert run_of(read_rows()[0]).family == "MEG21"


def test_errors_weigh_families_alike():
    errors = Errors({"a": [0.1, -0.1], "b": [-0.3]})
    assert errors.macro == pytest.approx(0.2) and errors.median == 0.1 and errors.share_within(0.1) == 2 / 3


def test_a_held_out_family_is_never_fitted(runs):
    seen = []

    def fitted(others):
        seen.append({run.family for run in others})
        return lambda run: run.step_seconds

    assert errors_of(runs, held_out(runs, fitted)).macro == 0
    assert all(len(families) == len({run.family for run in runs}) - 1 for families in seen)


def test_the_constants_beat_one_utilisation(runs):  # fitted on these runs: `make validate` holds out
    ours, rival = errors_of(runs, predict), errors_of(runs, constant_utilisation(runs))
    assert ours.macro < 0.16 and ours.median < 0.14 and ours.macro < 0.75 * rival.macro
    assert table(ours, rival).count("\n") == len(ours.by_family) + 4


def test_a_fit_lowers_the_error(runs):
    few = [run for run in runs if run.family in ("KORTH", "LLAMA3")]
    fitted = fit(few, rounds=3)
    before, after = (errors_of(few, lambda run, e=e: predict(run, e)).macro for e in (GUESSED, fitted))
    assert after < before


def by_id(name):
    return run_of(next(one for one in read_rows() if one["id"] == name))


def test_what_rows_leave_to_their_source_is_read_there():
    assert by_id("MCORE-H100-32B").layout.num_microbatches == 1  # no pipeline, so no reason to split the batch
    assert by_id("LLAMA3-405B-16384-cp1").layout.virtual == 7  # one layer each; the first chunk is only the embedding
    dropped, dropless = (
        by_id(f"MBRIDGE-25.{at}-Qwen3_30B_a3B-H100-SXM-FP8{cs}-n16") for at, cs in (("09", ""), ("11", "-CS"))
    )
    assert dropped.software.drops_tokens and not dropless.software.drops_tokens
    assert dropped.model.query_width == dropless.model.query_width == 32 * 128  # "(tokendrop)" in a name is irrelevant
    assert by_id("NANO-1.34B-1n").software.balanced_stages
    whole, by_ddp = by_id("NANO-1.34B-64n"), by_id("NANO-8.86B-64n")  # with ZeRO-1 and without
    assert whole.software.reduces_whole and not whole.layout.overlap
    assert not by_ddp.software.reduces_whole and by_ddp.layout.overlap
    fp32 = by_id("BLOOM-h14336-l70-a64-tp4pp12dp8-mb2-gb2048").software
    fp16 = by_id("BLOOM-h14336-l72-a64-tp4pp12dp8-mb2-gb2048").software
    assert fp32.reduces_whole and not fp16.reduces_whole and fp32.launches_block and fp16.launches_block
    assert not by_id("MTNLG-530B-2240").software.launches_block


def test_bloom_fused_its_softmax_in_every_row(runs):
    """Its kernel needs heads/t x b to be a multiple of 4 (megatron/model/fused_softmax.py, is_kernel_available)."""
    bloom = [run for run in runs if run.family == "BLOOM"]
    assert bloom and all(run.model.heads // run.layout.tp * run.layout.microbatch % 4 == 0 for run in bloom)
    assert all(run.software.fused for run in bloom)
    titan = by_id("TITAN-T1-8B-8-eager").software
    assert titan.half_products and not titan.fused and not titan.newest_attention
    assert (
        by_id("MEG21-T2-Z3-174.6B-384").software.one_card
        and not by_id("MPT-h100-80-70b-s2048-n512-mb8").software.one_card
    )


@pytest.mark.parametrize(
    ("name", "known"),
    [("H100-SXM", "h100"), ("DGX-H100", "h100"), ("GB300-NVL72", "gb300"), ("B300", "b300"), ("H800-SXM5", "h800")],
)
def test_a_gpu_by_the_names_that_sources_use(name, known):
    assert gpu_of(name).name == known


def test_an_unknown_family_with_experts_context_and_fp4_is_predicted():
    strange = row(
        id="NEW-1",
        source="somebody",
        note="",
        schedule="interleaved",
        model="Big",
        arch="moe",
        ffn="1536 expert (128 top8)",
        gpu="GB300",
        precision="NVFP4",
        layers="94",
        hidden="4096",
        heads="64",
        kv_heads="4",
        vocab="151936",
        seq="8192",
        n_gpus="256",
        tp="1",
        pp="4",
        virtual_pp="1",
        dp="32",
        cp="2",
        ep="32",
        micro_batch="",
        global_batch="1024",
        recompute="none",
        zero_stage="1",
    )
    answer = predicted_rows([strange])[0]
    assert answer["not_predicted"] == "" and 0 < float(answer["predicted_step_s"]) < 1000


def test_an_interval_misses_its_bar_by_covering_too_little_and_too_much():
    for covered, missed in ((0.80, True), (0.86, False), (0.94, False), (0.99, True)):
        assert ("missed" in summary({COVERED: covered}, {COVERED: 0.9})) == missed
    assert summary({FACTOR: 1.25}, {FACTOR: 1.8}).split()[-2:] == ["1.25", "1.80"]


def test_coverage_is_a_row_and_the_rank_has_an_interval(runs):
    found = measures(runs, predict)
    assert 0.8 < found[COVERED] < 1 < found[FACTOR] < 2
    line = uncertain_rank(runs, predict)
    low, high = float(line.split()[-3]), float(line.split()[-1])
    assert low < found[RANK] < high and f"rank correlation {found[RANK]:.2f}" in line


def test_the_report_says_first_that_constants_are_not_seen(monkeypatch, runs):
    monkeypatch.setattr(validate, "fitted_model", lambda others: predict)
    first, *rest = report().splitlines()
    assert first.startswith(f"{len(runs)} published runs from 14 sources. ")
    assert any(line.startswith(COVERED) and "85%–95%" in line for line in rest)
    assert any(line.startswith("bootstrap of ") for line in rest)


def test_the_summary_names_what_is_missed():
    good = {"all families": 0.05, RANK: 0.9, REGRET: 0.01}
    bad = {"all families": 0.09, RANK: 0.5, REGRET: 0.2}
    assert "missed" not in summary(good, bad) and summary(bad, good).count("missed") == 3


def test_a_fit_needs_times():
    with pytest.raises(ValueError, match="give one or more"):
        fit([])
