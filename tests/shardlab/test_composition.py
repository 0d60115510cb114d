"""The package composes: no class replaces a concrete method that it inherits from another of our classes."""

import ast
import importlib
import inspect
import pkgutil
import textwrap

import shardlab

NOT_YET = {  # these classes still inherit; the list may only get shorter
    "CountingStage overrides ModuleStage.forward",
    "MoEGPT overrides GPT.__init__",
    "ParallelMoE overrides MoE.__init__",
    "ParallelMoE overrides MoE.forward",
    "ParallelMoE overrides MoE.load_of_batch",
    "Suspect overrides MeshTrainer._microbatches",
    "Suspect overrides MeshTrainer._sum_gradients",
    "TokensInParts overrides MoE.__init__",
    "TokensInParts overrides MoE.forward",
    "TokensInParts overrides ParallelMoE.__init__",
    "TokensInParts overrides ParallelMoE.forward",
}


def classes_of(package):
    names = [one.name for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
    return {
        one
        for module in modules
        for _, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == module.__name__
    }


def is_concrete(method):
    """Whether this method has a body. An empty one, as in a callback class, is meant to be overridden."""
    function = inspect.unwrap(getattr(method, "fget", None) or method)
    if not inspect.isfunction(function) or getattr(method, "__isabstractmethod__", False):
        return False
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    return not all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in definition.body)


def overrides(kind):
    """Sentences about concrete methods of shardlab base classes that a class overrides."""
    return [
        f"{kind.__name__} overrides {base.__name__}.{name}"
        for base in kind.__mro__[1:]
        if base.__module__.startswith("shardlab.") and not getattr(base, "_is_protocol", False)
        for name, method in vars(base).items()
        if name in vars(kind) and is_concrete(method)
    ]


def test_no_class_overrides_a_concrete_method_of_another():
    kinds = classes_of(shardlab)
    found = {sentence for kind in kinds for sentence in overrides(kind)}
    assert len(kinds) > 200 and found <= NOT_YET, found - NOT_YET


class Base:
    def method(self):
        return 1

    def callback(self):
        """Called occasionally."""


Base.__module__ = "shardlab.toy"


class Derived(Base):
    def method(self):
        return 2

    def callback(self):
        return 3


def test_an_override_is_found():
    assert overrides(Derived) == ["Derived overrides Base.method"]
