"""Parameter counts against those that the models' publishers count."""

import pytest
from shardlab.costs.model import Transformer, dense_layer_parameters, num_parameters
from shardlab.costs.model_zoo import SOURCES, ZOO, find_model, gpt

PUBLISHED = {
    "gpt2": 124_439_808,
    "llama2-7b": 6_738_415_616,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "yi-6b": 6_061_035_520,
    "yi-34b": 34_388_917_248,
    "olmo-7b": 6_888_095_744,
    "gemma2-9b": 9_241_705_984,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-30b-a3b": 30_532_122_624,
}


ROUNDED = {  # billions as the papers print them, and to which digit
    "gpt3-175b": (174.6, 0.05),  # arXiv 2104.04473, table 1; 175.0 in arXiv 2005.14165, table 2.1
    "gpt-22b": (22.0, 0.1),
    "mt-nlg-530b": (529.6, 0.05),
    "gpt-1t": (1008.0, 0.05),
    "deepseek-v3": (671.0, 0.05),
}


def test_every_model_of_the_zoo_matches_its_published_source():
    assert set(PUBLISHED) | set(ROUNDED) == set(ZOO) == set(SOURCES)


@pytest.mark.parametrize(("name", "printed"), ROUNDED.items())
def test_counts_come_to_the_printed_ones(name, printed):
    billions, digit = printed
    assert num_parameters(ZOO[name]) / 1e9 == pytest.approx(billions, abs=digit)


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_counts_are_exact(name, published):
    assert num_parameters(ZOO[name]) == published


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "billions"),
    [(24, 2304, 24, 1.7), (30, 3072, 32, 3.6), (48, 8192, 64, 39.1), (80, 12288, 96, 145.6), (105, 20480, 128, 529.6)],
)
def test_the_rows_of_megatrons_table_1(layers, hidden, heads, billions):
    assert num_parameters(gpt("row", layers, hidden, heads)) / 1e9 == pytest.approx(billions, abs=0.05)


def test_equation_2_of_ptd_p():
    model = gpt("one", 7, 64, 4, vocab=1000, sequence=32)
    assert dense_layer_parameters(model) == 12 * 64**2 + 13 * 64
    assert num_parameters(model) == 7 * (12 * 64**2 + 13 * 64) + (1000 + 32) * 64 + 2 * 64


def test_active_parameters_of_mixtures():
    assert num_parameters(ZOO["deepseek-v3"]) / 1e9 == pytest.approx(671, abs=0.5)
    assert num_parameters(ZOO["deepseek-v3"], active=True) / 1e9 == pytest.approx(37, abs=1)
    assert num_parameters(ZOO["mixtral-8x7b"], active=True) / 1e9 == pytest.approx(12.9, abs=0.05)
    assert num_parameters(ZOO["gpt2"], active=True) == num_parameters(ZOO["gpt2"])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"layers": 0}, "use 1 or more"),
        ({"ffn": -1}, "must not be negative"),
        ({"kv_heads": 3}, r"use \[1, 2, 4, 8\]"),
        ({"hidden": 100}, "give head_dim, or a hidden of 96"),
        ({"experts": 4}, "1 to 4 active"),
        ({"ffn": 0}, "makes no MLP"),
    ],
)
def test_sizes_that_make_no_model(wrong, sentence):
    sizes = {"layers": 2, "hidden": 64, "heads": 8, "kv_heads": 8, "ffn": 256, "vocab": 100, "sequence": 8}
    with pytest.raises(ValueError, match=sentence):
        Transformer("wrong", **(sizes | wrong))


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="gpt3-175b, gpt-22b"):
        find_model("gpt-9")


def test_a_model_on_longer_sequences_is_the_same_model_otherwise():
    book = find_model("llama3-405b", sequence=262_144)
    assert (book.sequence, num_parameters(book)) == (262_144, PUBLISHED["llama3-405b"])
    assert find_model("llama3-405b").sequence == 8192
    with pytest.raises(ValueError, match="use 1 or more"):
        find_model("llama3-405b", sequence=0)
