"""Pairs of readers and writers: the one file that holds a model, PyTorch, Hugging Face.

Opening this door loads neither safetensors nor torch; each is imported by the function that
needs it.
"""

from hardmax.interop._description import StoredConstruction as StoredConstruction
from hardmax.interop._safetensors import read_metadata as read_metadata
from hardmax.interop._safetensors import read_safetensors as read_safetensors
from hardmax.interop._safetensors import write_safetensors as write_safetensors
from hardmax.interop._torch import write_torch as write_torch
from hardmax.interop.huggingface import StoredHost as StoredHost
from hardmax.interop.huggingface import WrittenFolder as WrittenFolder
from hardmax.interop.huggingface import read_huggingface as read_huggingface
from hardmax.interop.huggingface import write_huggingface as write_huggingface
