"""The course's models by name, from data/models.csv; or a JSON file with the fields of `Transformer`."""

import csv
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
FAMILIES = {"gpt": gpt, "llama": llama}
TABLE = Path(__file__).parents[1] / "data" / "models.csv"  # with a source for each model's sizes


def _model_of(row: dict[str, str]) -> Transformer:
    """The model in a row of the table; an empty cell keeps the family's default."""
    given = {name: json.loads(cell) for name, cell in row.items() if cell and name not in ("name", "family", "source")}
    if "latent" in given:
        given["latent"] = Latent(**given["latent"])
    return FAMILIES[row["family"]](row["name"], **given)


with TABLE.open(newline="", encoding="utf-8") as file:
    ZOO = {row["name"]: _model_of(row) for row in csv.DictReader(file)}


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
