"""For processes that train nothing: JAX and Dr.Jit are not loaded, which is most of what they need to start.

Whatever is imported from them is `Nothing`, which can be called, decorated with and derived from, and does nothing.
"""

import importlib.machinery
import sys
import types

LEFT_OUT = ("jax", "jaxlib", "drjit", "equinox", "optax")


class Anything(type):
    """Of a class that has every attribute."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class Nothing(metaclass=Anything):
    def __new__(cls, *arguments, **named):
        return Nothing if cls is Nothing else object.__new__(cls)

    def __init_subclass__(cls, **named): ...


class EmptyModule(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Finder:
    """Finds modules that are empty."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LEFT_OUT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return EmptyModule(spec.name)

    def exec_module(self, module): ...


sys.meta_path.insert(0, Finder())
