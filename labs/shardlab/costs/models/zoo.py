"""The course's models by name, with the source of each one's sizes; or a JSON file with the fields of `Transformer`."""

import json
from dataclasses import MISSING, Field, fields, replace
from functools import partial
from pathlib import Path

from shardlab.costs.models.model import Latent, Transformer
from shardlab.meant import instead


def gpt(name: str, layers: int, hidden: int, heads: int, *, vocab: int = 51200, sequence: int = 2048, **more):
    """A GPT: f = 4h, biases, LayerNorm, tied embedding, learned positions (arXiv 2005.14165, 2104.04473)."""
    sizes: dict = dict(kv_heads=heads, ffn=4 * hidden, bias=True, tied=True, positions=sequence, norm_vectors=4)
    return Transformer(
        name, layers=layers, hidden=hidden, heads=heads, vocab=vocab, sequence=sequence, **(sizes | more)
    )


llama = partial(Transformer, gated=True)  # arXiv 2302.13971: SwiGLU, RMSNorm, rotary positions, no biases

ZOO = {
    model.name: model
    for model in (
        gpt("gpt2", 12, 768, 12, vocab=50257, sequence=1024),
        gpt("gpt3-175b", 96, 12288, 96),
        gpt("gpt-22b", 48, 6144, 64),
        gpt("mt-nlg-530b", 105, 20480, 128),
        gpt("gpt-1t", 128, 25600, 160),
        llama("llama2-7b", layers=32, hidden=4096, heads=32, kv_heads=32, ffn=11008, vocab=32000, sequence=4096),
        llama("llama2-70b", layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=32000, sequence=4096),
        llama("llama3-8b", layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, sequence=8192),
        llama("llama3-70b", layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256, sequence=8192),
        llama("llama3-405b", layers=126, hidden=16384, heads=128, kv_heads=8, ffn=53248, vocab=128256, sequence=8192),
        llama("yi-6b", layers=32, hidden=4096, heads=32, kv_heads=4, ffn=11008, vocab=64000, sequence=4096),
        llama("yi-34b", layers=60, hidden=7168, heads=56, kv_heads=8, ffn=20480, vocab=64000, sequence=4096),
        # its LayerNorm has no parameters
        llama(
            "olmo-7b",
            layers=32,
            hidden=4096,
            heads=32,
            kv_heads=32,
            ffn=11008,
            vocab=50304,
            sequence=2048,
            norm_vectors=0,
        ),
        # four norms per layer, heads wider than h/a
        llama(
            "gemma2-9b",
            layers=42,
            hidden=3584,
            heads=16,
            kv_heads=8,
            ffn=14336,
            vocab=256000,
            sequence=8192,
            head_dim=256,
            tied=True,
            norm_vectors=4,
        ),
        llama(
            "mixtral-8x7b",
            layers=32,
            hidden=4096,
            heads=32,
            kv_heads=8,
            ffn=0,
            vocab=32000,
            sequence=32768,
            experts=8,
            active_experts=2,
            expert_ffn=14336,
        ),
        llama(
            "qwen3-30b-a3b",
            layers=48,
            hidden=2048,
            heads=32,
            kv_heads=4,
            ffn=0,
            vocab=151936,
            sequence=4096,
            head_dim=128,
            qk_norm=True,
            experts=128,
            active_experts=8,
            expert_ffn=768,
        ),
        llama(
            "deepseek-v3",
            layers=61,
            hidden=7168,
            heads=128,
            kv_heads=128,
            ffn=18432,
            vocab=129280,
            sequence=4096,
            experts=256,
            active_experts=8,
            expert_ffn=2048,
            shared_experts=1,
            dense_layers=3,
            latent=Latent(),
        ),
    )
}

SOURCES = {  # where the sizes are documented
    "gpt2": "Radford et al. 2019, table 2; configuration of openai-community/gpt2",
    "gpt3-175b": "arXiv 2005.14165, table 2.1, with Megatron's padded vocabulary",
    "gpt-22b": "arXiv 2205.05198, table 3",
    "mt-nlg-530b": "arXiv 2201.11990, section 2.4",
    "gpt-1t": "arXiv 2104.04473, table 1, last row",
    "llama2-7b": "arXiv 2307.09288; configuration of meta-llama/Llama-2-7b",
    "llama2-70b": "arXiv 2307.09288; configuration of meta-llama/Llama-2-70b",
    "llama3-8b": "arXiv 2407.21783, table 3",
    "llama3-70b": "arXiv 2407.21783, table 3",
    "llama3-405b": "arXiv 2407.21783, table 3",
    "yi-6b": "arXiv 2403.04652, table 1",
    "yi-34b": "arXiv 2403.04652, table 1",
    "olmo-7b": "arXiv 2402.00838, table 1; trained on Dolma",
    "gemma2-9b": "arXiv 2408.00118, table 1",
    "mixtral-8x7b": "arXiv 2401.04088, table 1",
    "qwen3-30b-a3b": "arXiv 2505.09388, table 2; its configuration",
    "deepseek-v3": "arXiv 2412.19437, section 4.2, without its multi-token prediction module",
}


def find_model(name: str, *, sequence: int | None = None) -> Transformer:
    """The model with that name; `sequence` overrides its sequence length.

    Raises ValueError that lists the names, or for a length below 1.
    """
    if name.lower() not in ZOO:
        raise ValueError(f"unknown model {name!r}, and not a JSON file of sizes: {instead(name, ZOO)}")
    model = ZOO[name.lower()]
    if sequence is None:
        return model
    if sequence < 1:
        raise ValueError(f"a sequence of {sequence} tokens cannot be trained on: use 1 or more")
    return replace(model, sequence=sequence)


LONGEST = 1_000_000  # characters in a file; a model has about 20 numbers
OF_EXPERTS = ("active_experts", "expert_ffn", "shared_experts", "dense_layers")
WANTED: dict[object, tuple[str, type]] = {
    str: ("text", str),
    bool: ("true or false", bool),
    int: ("a whole number", int),
}


def load_model(name_or_file: str) -> Transformer:
    """The model with that name or in that file. Raises ValueError for unknown, missing, duplicate or invalid fields."""
    path = Path(name_or_file)
    if path.suffix != ".json":
        return find_model(name_or_file)
    try:
        given = _read(path)
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError(f'{path} is not a JSON object: write {{"layers": 32, "hidden": 4096, ...}}')
    return model_from({"name": path.stem, **given})


def model_from(given: dict) -> Transformer:
    """A model from plain fields. Raises one ValueError that names every missing, unknown and invalid field."""
    wrong = _wrong(given, fields(Transformer), "a model", frozenset({"latent"}))
    latent = given.get("latent")
    if isinstance(latent, dict):
        wrong += _wrong(latent, fields(Latent), "latent")
    elif latent is not None:
        wrong.append(f"latent = {latent!r} is not an object: give {{{_names(fields(Latent))}}}")
    if wrong:
        raise ValueError("; ".join(wrong))
    if isinstance(latent, dict):
        given = given | {"latent": Latent(**latent)}
    model = Transformer(**given)
    if not model.experts and (alone := [name for name in OF_EXPERTS if getattr(model, name)]):
        raise ValueError(f"{', '.join(alone)} without experts: give their number, or 0 for {', '.join(alone)}")
    if 0 < model.positions < model.sequence:
        raise ValueError(
            f"{model.positions} learned positions for a sequence of {model.sequence}: use at least as many, or 0"
        )
    return model


def _read(path: Path) -> object:
    """Parse the file's JSON. Raises ValueError for a duplicate field and for a file too long to be a model."""
    with path.open() as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters: give only the sizes of a model")
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(twice)} is given more than once: keep one")
    return dict(pairs)


def _wrong(given: dict, wanted: tuple[Field, ...], what: str, also: frozenset[str] = frozenset()) -> list[str]:
    """A sentence for each kind of error; `also`: fields that are checked elsewhere."""
    known = {field.name: field for field in wanted}
    wrong = []
    if unknown := sorted(set(given) - set(known)):
        wrong.append(f"{what} has no {', '.join(unknown)}: {what} has the fields {_names(wanted)}")
    if missing := [name for name, field in known.items() if field.default is MISSING and name not in given]:
        wrong.append(f"{what} is missing {', '.join(missing)}: give whole numbers")
    for name in sorted(set(given) & set(known) - also):
        expected, kind = WANTED[known[name].type]
        value = given[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            wrong.append(f"{name} = {value!r} is not {expected}: give one")
    return wrong


def _names(wanted: tuple[Field, ...]) -> str:
    return ", ".join(field.name for field in wanted)
