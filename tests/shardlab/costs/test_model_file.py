"""Invalid model files and degrees raise one sentence saying what would work. Huge numbers do not hang."""

import json

import pytest
from shardlab.costs.layout import Layout, check_layout, check_world
from shardlab.costs.models.model import LARGEST, Latent, Transformer, divisors, num_parameters
from shardlab.costs.models.zoo import LONGEST, ZOO, load_model, model_from

GOOD = {"layers": 2, "hidden": 64, "heads": 8, "kv_heads": 8, "ffn": 256, "vocab": 100, "sequence": 8}
MOE = GOOD | {"ffn": 0, "experts": 4, "active_experts": 2, "expert_ffn": 128}
LATENT = {"q_rank": 0, "kv_rank": 16, "nope": 8, "rope": 4, "value": 8}


def without(*names):
    return {name: value for name, value in GOOD.items() if name not in names}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (without("hidden", "vocab"), "a model is missing hidden, vocab: give whole numbers"),
        (GOOD | {"wings": 2, "legs": 4}, "has no legs, wings: a model has the fields name, layers"),
        (GOOD | {"layers": "two", "hidden": 6.5}, "hidden = 6.5 is not a whole number: give one; layers = 'two'"),
        (GOOD | {"layers": True}, "layers = True is not a whole number"),
        (GOOD | {"gated": 1}, "gated = 1 is not true or false"),
        (GOOD | {"name": 7}, "name = 7 is not text"),
        (GOOD | {"layers": -2}, "layers = -2 is not valid: use 1 or more"),
        (GOOD | {"positions": -2}, "must not be negative: use 0 for none"),
        (GOOD | {"layers": 10**30}, f"layers: no model is that large: use at most {LARGEST}"),
        (GOOD | {"heads": 2**31 - 1, "kv_heads": 7}, r"cannot share 7 key-value heads: use \[1, 2147483647\]"),
        (
            GOOD | {"active_experts": 2, "expert_ffn": 8},
            "active_experts, expert_ffn without experts: give their number",
        ),
        (GOOD | {"dense_layers": 1}, "dense_layers without experts"),
        (MOE | {"active_experts": 5}, "4 experts need 1 to 4 active ones"),
        (MOE | {"dense_layers": 3}, "3 dense layers in 2 layers: use 0 to 2"),
        (MOE | {"dense_layers": 1}, "ffn = 0 is not an MLP"),
        (GOOD | {"positions": 4}, "4 learned positions for a sequence of 8: use at least as many, or 0"),
        (GOOD | {"latent": 5}, "latent = 5 is not an object: give {q_rank, kv_rank"),
        (GOOD | {"latent": LATENT | {"rank": 3}}, "latent has no rank: latent has the fields q_rank"),
        (GOOD | {"latent": LATENT | {"rope": "x"}}, "rope = 'x' is not a whole number"),
        (GOOD | {"latent": LATENT | {"kv_rank": 0}}, "latent: kv_rank = 0, use 1 to"),
    ],
)
def test_fields_that_make_no_model(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        model_from({"name": "mine"} | given)


def test_all_faults_are_told_at_once():
    with pytest.raises(ValueError) as told:
        model_from({"name": "mine", "wings": 2, "layers": "two"} | {"latent": {"rank": 1}})
    assert all(part in str(told.value) for part in ("no wings", "missing hidden", "'two'", "no rank"))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("", "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        ("[1]", "is not a JSON object"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"layers": 2, "layers": 4}', "layers is given more than once: keep one"),
        (f'{{"layers": {"9" * 5000}}}', "cannot be read as JSON"),
        (" " * (LONGEST + 1), "longer than"),
    ],
)
def test_files_that_hold_no_model(tmp_path, written, sentence):
    path = tmp_path / "mine.json"
    path.write_text(written)
    with pytest.raises(ValueError, match=sentence):
        load_model(str(path))


def test_bytes_a_folder_and_nothing(tmp_path):
    (tmp_path / "raw.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.json").mkdir()
    for name in ("raw", "folder", "missing"):
        with pytest.raises(ValueError, match="cannot be read as JSON"):
            load_model(str(tmp_path / f"{name}.json"))


def test_a_good_file_is_read(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(GOOD | {"latent": LATENT}))
    assert load_model(str(path)) == Transformer("mine", **GOOD, latent=Latent(**LATENT))
    assert load_model("llama3-8b") == ZOO["llama3-8b"]
    assert num_parameters(model_from({"name": "mine"} | MOE)) > num_parameters(model_from({"name": "mine"} | GOOD))


@pytest.mark.parametrize("number", [1, 2, 12, 36, 97, 720_720, 2**31 - 1])
def test_divisors_divide_and_come_in_order(number):
    found = divisors(number)
    assert found == sorted(set(found)) and all(number % d == 0 for d in found)
    if number < 1000:
        assert found == [d for d in range(1, number + 1) if number % d == 0]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"tp": -4}, "tp = -4 is not a size: use 1 or more"),
        ({"dp": 10**12}, f"dp = {10**12} is not a size: .* whole number up to {LARGEST}"),
        ({"pp": 2.5}, "pp = 2.5 is not a size: .* whole number"),
        ({"tp": "8"}, "tp = 8 is not a size"),
        ({"dp": LARGEST, "ep": 7}, r"ep = 7 does not divide .* use \[1, 2147483647\]"),
    ],
)
def test_degrees_that_are_none(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        Layout(**wrong)


@pytest.mark.parametrize(
    ("num_gpus", "fits"),
    [
        (64, "use 128, or dp = 2"),
        (31, "use 128, or 32 GPUs with dp = 1"),
        (1000, "992 GPUs with dp = 31"),
        (0, "dp = 1"),
    ],
)
def test_degrees_that_do_not_multiply_to_the_world(num_gpus, fits):
    layout = Layout(tp=8, pp=4, dp=4)
    check_world(layout, 128)
    with pytest.raises(ValueError, match=f"8 x 4 x 4 x 1 = 128, but the run has {num_gpus} GPUs: .*{fits}"):
        check_world(layout, num_gpus)


def test_heads_that_cannot_be_split_are_answered_with_sizes_that_can():
    with pytest.raises(ValueError, match="use a tensor-parallel size of 1, 2, 4, 8, 16 or 32"):
        check_layout(ZOO["llama3-8b"], Layout(tp=3))
