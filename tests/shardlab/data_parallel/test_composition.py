"""The package composes: no class replaces a concrete method that it inherits from another of our classes."""

import importlib
import inspect
import pkgutil

from shardlab import data_parallel


def classes_of(package):
    modules = [
        importlib.import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__)
    ]
    return {
        one
        for module in modules
        for _, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__
    }


def overrides(kind):
    """Concrete methods of bases in shardlab that a class defines again, as sentences."""
    return [
        f"{kind.__name__} overrides {base.__name__}.{name}"
        for base in kind.__mro__[1:]
        if base.__module__.startswith("shardlab.") and not getattr(base, "_is_protocol", False)
        for name, method in vars(base).items()
        if inspect.isfunction(inspect.unwrap(getattr(method, "fget", None) or method))
        and not getattr(method, "__isabstractmethod__", False)
        and name in vars(kind)
    ]


def test_no_class_overrides_a_concrete_method_of_another():
    kinds = classes_of(data_parallel)
    assert len(kinds) > 15
    assert [sentence for kind in kinds for sentence in overrides(kind)] == []


class Base:
    def method(self): ...


Base.__module__ = "shardlab.toy"


class Derived(Base):
    def method(self): ...


def test_an_override_is_found():
    assert overrides(Derived) == ["Derived overrides Base.method"]
