"""Compiled models in unmodified classes of transformers: folders that are written and read."""

from hardmax.interop.huggingface._folder import StoredHost as StoredHost
from hardmax.interop.huggingface._folder import WrittenFolder as WrittenFolder
from hardmax.interop.huggingface._folder import read_huggingface as read_huggingface
from hardmax.interop.huggingface._folder import write_huggingface as write_huggingface
