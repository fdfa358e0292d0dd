"""What Transformers can compute, made executable.

import hardmax as hm

product = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-3)
print(product.bill)
print(hm.certify(product))
print(product(x=0.3, y=0.5))

network = hm.ReluNetwork(weights, biases)
construction = hm.compile(network, on=hm.Box([-1, -1], [1, 1]), error=1e-3)
"""

from typing import TYPE_CHECKING

from hardmax._version import __version__ as __version__

if TYPE_CHECKING:  # what `__getattr__` finds below, for type checkers
    from hardmax import interop as interop
    from hardmax import plots as plots
    from hardmax import programs as programs
    from hardmax import testing as testing
    from hardmax._disguise import disguise as disguise
    from hardmax._errors import DomainError as DomainError
    from hardmax._errors import FileError as FileError
    from hardmax._errors import HardmaxError as HardmaxError
    from hardmax._errors import MissingExtra as MissingExtra
    from hardmax._errors import PrecisionError as PrecisionError
    from hardmax._errors import RequestError as RequestError
    from hardmax._errors import SemanticsError as SemanticsError
    from hardmax._errors import ShapeError as ShapeError
    from hardmax._folders import Folder as Folder
    from hardmax._folders import certify_folder as certify_folder
    from hardmax._folders import open_folder as open_folder
    from hardmax._interventions import interchange as interchange
    from hardmax._interventions import intervene as intervene
    from hardmax._workbench import Measurement as Measurement
    from hardmax._workbench import Source as Source
    from hardmax._workbench import certify as certify
    from hardmax._workbench import compile as compile
    from hardmax._workbench import load as load
    from hardmax._workbench import load_certificate as load_certificate
    from hardmax._workbench import load_certified as load_certified
    from hardmax._workbench import measure as measure
    from hardmax._workbench import plan as plan
    from hardmax._workbench import plan_program as plan_program
    from hardmax._workbench import save as save
    from hardmax._workbench import trace as trace
    from hardmax.checker import Budget as Budget
    from hardmax.checker import Certificate as Certificate
    from hardmax.checker import Standing as Standing
    from hardmax.checker import Verdict as Verdict
    from hardmax.core import Attention as Attention
    from hardmax.core import Bill as Bill
    from hardmax.core import Box as Box
    from hardmax.core import Claim as Claim
    from hardmax.core import Construction as Construction
    from hardmax.core import FeedForward as FeedForward
    from hardmax.core import GatedFeedForward as GatedFeedForward
    from hardmax.core import Hardmax as Hardmax
    from hardmax.core import Head as Head
    from hardmax.core import ReadOut as ReadOut
    from hardmax.core import SequenceInput as SequenceInput
    from hardmax.core import Softmax as Softmax
    from hardmax.core import Transformer as Transformer
    from hardmax.core import VectorInput as VectorInput
    from hardmax.core import Words as Words
    from hardmax.geometry import LinearCell as LinearCell
    from hardmax.geometry import LineRegions as LineRegions
    from hardmax.geometry import MinkowskiSum as MinkowskiSum
    from hardmax.geometry import Polytope as Polytope
    from hardmax.geometry import PowerDiagram as PowerDiagram
    from hardmax.geometry import Regions as Regions
    from hardmax.geometry import Segment as Segment
    from hardmax.geometry import Slice as Slice
    from hardmax.geometry import Stability as Stability
    from hardmax.geometry import StabilityReport as StabilityReport
    from hardmax.geometry import TopKDiagram as TopKDiagram
    from hardmax.geometry import Tropical as Tropical
    from hardmax.geometry import TropicalRational as TropicalRational
    from hardmax.geometry import bounds as bounds
    from hardmax.geometry import common_refinement as common_refinement
    from hardmax.geometry import depth_construction as depth_construction
    from hardmax.geometry import head_diagram as head_diagram
    from hardmax.geometry import line_breakpoints as line_breakpoints
    from hardmax.geometry import minkowski_sum as minkowski_sum
    from hardmax.geometry import power_diagram as power_diagram
    from hardmax.geometry import regions as regions
    from hardmax.geometry import skeleton as skeleton
    from hardmax.geometry import stability as stability
    from hardmax.geometry import stability_of as stability_of
    from hardmax.geometry import top_k_diagram as top_k_diagram
    from hardmax.languages import CallableFunction as CallableFunction
    from hardmax.languages import Expression as Expression
    from hardmax.languages import Function as Function
    from hardmax.languages import LayeredNetwork as LayeredNetwork
    from hardmax.languages import MaxAffine as MaxAffine
    from hardmax.languages import MaxoutNetwork as MaxoutNetwork
    from hardmax.languages import PiecewiseLinear as PiecewiseLinear
    from hardmax.languages import ReluNetwork as ReluNetwork
    from hardmax.languages import from_torch as from_torch
    from hardmax.languages import load_network as load_network
    from hardmax.languages import save_network as save_network
    from hardmax.languages import sorting_network as sorting_network
    from hardmax.languages.expressions.words import *  # noqa: F403 - exp, gelu, ...: see its list
    from hardmax.languages.programs import Program as Program
    from hardmax.languages.programs import program as program
    from hardmax.lowering import Offer as Offer
    from hardmax.lowering import Plan as Plan
    from hardmax.lowering import ProgramPlan as ProgramPlan
    from hardmax.passes import soften as soften
    from hardmax.suites import Suite as Suite
    from hardmax.suites import write_suite as write_suite

# The surface: what the README and the guide speak of, and what a script may rely on; and the module
# that each name comes from when it is first used. Nothing is loaded before: `import hardmax` takes
# no time, and the command line answers `--help` at once.
_SURFACE = {  # in groups, as one would look for them
    # verbs: from a source to a model, its proof and its file
    "compile": "_workbench",
    "plan": "_workbench",
    "plan_program": "_workbench",  # for one release: plan takes programs
    "measure": "_workbench",
    "certify": "_workbench",
    "trace": "_workbench",
    "soften": "passes",
    "disguise": "_disguise",
    "save": "_workbench",
    "write_suite": "suites",
    "intervene": "_interventions",
    "interchange": "_interventions",
    "load": "_workbench",
    "load_certificate": "_workbench",
    "load_certified": "_workbench",
    "open_folder": "_folders",
    "certify_folder": "_folders",
    # sources: functions
    "Source": "_workbench",
    "Function": "languages",
    "CallableFunction": "languages",
    "Expression": "languages",
    # ... and exp, gelu, maximum, softmax, ...: `expressions.words` has the list
    "sorting_network": "languages",
    # sources: networks
    "ReluNetwork": "languages",
    "MaxoutNetwork": "languages",
    "MaxAffine": "languages",
    "PiecewiseLinear": "languages",
    "LayeredNetwork": "languages",
    "from_torch": "languages",
    "load_network": "languages",
    "save_network": "languages",
    # sources: programs
    "programs": "programs",
    "program": "languages.programs",
    "Program": "languages.programs",
    # values: what is built, promised, counted and established
    "Construction": "core",
    "Transformer": "core",
    "VectorInput": "core",
    "SequenceInput": "core",
    "Attention": "core",
    "Head": "core",
    "Hardmax": "core",
    "Softmax": "core",
    "FeedForward": "core",
    "GatedFeedForward": "core",
    "ReadOut": "core",
    "Box": "core",
    "Words": "core",
    "Claim": "core",
    "Bill": "core",
    "Plan": "lowering",
    "ProgramPlan": "lowering",
    "Offer": "lowering",
    "Measurement": "_workbench",
    "Certificate": "checker",
    "Verdict": "checker",
    "Budget": "checker",
    "Standing": "checker",
    "Folder": "_folders",
    "Suite": "suites",
    # geometry
    "regions": "geometry",
    "Regions": "geometry",
    "LineRegions": "geometry",
    "LinearCell": "geometry",
    "Segment": "geometry",
    "Slice": "geometry",
    "line_breakpoints": "geometry",
    "skeleton": "geometry",
    "power_diagram": "geometry",
    "PowerDiagram": "geometry",
    "head_diagram": "geometry",
    "top_k_diagram": "geometry",
    "TopKDiagram": "geometry",
    "Polytope": "geometry",
    "minkowski_sum": "geometry",
    "MinkowskiSum": "geometry",
    "common_refinement": "geometry",
    "Tropical": "geometry",
    "TropicalRational": "geometry",
    "stability": "geometry",
    "stability_of": "geometry",
    "Stability": "geometry",
    "StabilityReport": "geometry",
    "bounds": "geometry.bounds",
    "depth_construction": "geometry",
    # errors
    "HardmaxError": "_errors",
    "RequestError": "_errors",
    "ShapeError": "_errors",
    "DomainError": "_errors",
    "PrecisionError": "_errors",
    "SemanticsError": "_errors",
    "FileError": "_errors",
    "MissingExtra": "_errors",
    # rooms with doors of their own
    "interop": "interop",
    "plots": "plots",
    "testing": "testing",
}
_WORDS = "hardmax.languages.expressions.words"
_ROOMS = ("analysis", "checker", "core", "geometry", "languages", "lowering", "numerics", "passes")

if not TYPE_CHECKING:  # or a type checker would believe that every name is there

    def __getattr__(name: str) -> object:
        """A name of the surface, when it is first asked for; it stays from then on."""
        from importlib import import_module

        if name in _SURFACE:
            module = import_module(f"hardmax.{_SURFACE[name]}")
            is_room = _SURFACE[name].split(".")[-1] == name
            found = module if is_room else getattr(module, name)
        elif name in _ROOMS:
            found = import_module(f"hardmax.{name}")
        elif name == "__all__":
            found = [*_SURFACE, *import_module(_WORDS).__all__]
        elif name.startswith("__") or name not in import_module(_WORDS).__all__:
            raise _unknown(name)
        else:
            found = getattr(import_module(_WORDS), name)
        globals()[name] = found
        return found

    def _unknown(name: str) -> AttributeError:
        from difflib import get_close_matches

        close = [] if name.startswith("__") else get_close_matches(name, __dir__(), 1)
        hint = f"; did you mean hm.{close[0]}?" if close else "; dir(hardmax) lists what there is."
        return AttributeError(f"hardmax has no {name!r}{hint}", name=name)


def __dir__() -> list[str]:
    from hardmax.languages.expressions import words

    return sorted([*_SURFACE, *words.__all__, "__version__"])
