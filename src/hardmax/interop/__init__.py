"""Pairs of readers and writers: the one file that holds a model, and other people's tools.

Opening this door loads neither safetensors nor torch, onnx or jax; each is imported by the
function that needs it.
"""

from hardmax.interop._description import StoredConstruction as StoredConstruction
from hardmax.interop._hooks import circuit_record as circuit_record
from hardmax.interop._jax import to_jax as to_jax
from hardmax.interop._onnx import read_onnx as read_onnx
from hardmax.interop._onnx import write_onnx as write_onnx
from hardmax.interop._safetensors import read_metadata as read_metadata
from hardmax.interop._safetensors import read_safetensors as read_safetensors
from hardmax.interop._safetensors import write_safetensors as write_safetensors
from hardmax.interop._standalone import StandaloneFolder as StandaloneFolder
from hardmax.interop._standalone import write_standalone as write_standalone
from hardmax.interop._torch import write_torch as write_torch
from hardmax.interop.huggingface import StoredHost as StoredHost
from hardmax.interop.huggingface import WrittenFolder as WrittenFolder
from hardmax.interop.huggingface import read_huggingface as read_huggingface
from hardmax.interop.huggingface import write_huggingface as write_huggingface
from hardmax.interop.lens import LensFiles as LensFiles
from hardmax.interop.lens import export_lens_files as export_lens_files
from hardmax.interop.lens import open_in_lens as open_in_lens
from hardmax.interop.lens import read_lens_construction as read_lens_construction
from hardmax.interop.lens import read_lens_files as read_lens_files
from hardmax.interop.lens import write_transformer_lens as write_transformer_lens
