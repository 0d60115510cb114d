"""A model by name, or by a JSON file with the fields of `Transformer`."""

import json
from dataclasses import MISSING, fields
from pathlib import Path

from shardlab.costs.model import Latent, Transformer
from shardlab.costs.model_zoo import find_model


def load_model(name_or_file: str) -> Transformer:
    """The model of that name or in that file. Raises ValueError for unknown, missing, superfluous or wrong fields."""
    path = Path(name_or_file)
    if path.suffix != ".json":
        return find_model(name_or_file)
    try:
        given = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError(f'{path} holds no object: write {{"layers": 32, "hidden": 4096, ...}}')
    return model_from({"name": path.stem, **given})


def model_from(given: dict) -> Transformer:
    """A model from plain fields. Raises ValueError that names each wrong one."""
    known = {field.name: field for field in fields(Transformer)}
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"a model has no {', '.join(unknown)}: its fields are {', '.join(known)}")
    if missing := [name for name, field in known.items() if field.default is MISSING and name not in given]:
        raise ValueError(f"the model lacks {', '.join(missing)}: give whole numbers")
    for name, value in given.items():
        wanted = "text" if name == "name" else "true or false" if known[name].type in (bool, "bool") else "whole number"
        right = {"text": str, "true or false": bool, "whole number": int}[wanted]
        if name != "latent" and (not isinstance(value, right) or (right is int and isinstance(value, bool))):
            raise ValueError(f"{name} = {value!r} is no {wanted}: give one")
    if isinstance(given.get("latent"), dict):
        try:
            given = given | {"latent": Latent(**given["latent"])}
        except TypeError:
            raise ValueError(f"latent has the fields {', '.join(f.name for f in fields(Latent))}") from None
    return Transformer(**given)
