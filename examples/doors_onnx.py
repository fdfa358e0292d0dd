"""A program in onnxruntime: written without PyTorch, labelled, and read back bit for bit.

python examples/doors_onnx.py      (extra onnx, and onnxruntime)
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import onnx
import onnxruntime

import hardmax as hm
from hardmax.core import fingerprint


def main() -> None:
    model = hm.compile(hm.programs.histogram, alphabet="abc", length=6)
    certificate = hm.certify(model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "histogram.onnx"
        hm.interop.write_onnx(model, path, dtype="float32", certificate=certificate.as_dict())
        print(f"{path.name}: {path.stat().st_size:,} bytes, certified in float32:", end=" ")
        print(f"{certificate.formats['float32']:.3g} <= {model.claim.error:.3g}")
        answer(model, path)
        look_inside(path)

        hm.interop.write_onnx(model, path)
        again = hm.interop.read_onnx(path)
        print("read back:", fingerprint(again) == fingerprint(model.transformer))


def answer(model: hm.Construction, path: Path) -> None:
    """Words of any length, in batches of any size."""
    session = onnxruntime.InferenceSession(path)
    for words in (["abacab", "cccccc"], ["b"]):
        ids = [model.transformer.input.indices(word) for word in words]
        (rows,) = session.run(["outputs"], {"ids": ids})
        for word, row in zip(words, rows, strict=True):
            print(f"{word:>8}  {model.claim.target.decode(row)}")


def look_inside(path: Path) -> None:
    """What every head does, by the name that it has in the graph."""
    drawn = onnx.load(path)
    texts = {prop.key: prop.value for prop in drawn.metadata_props}
    for name, labels in json.loads(texts["hardmax.legend"]).items():
        if name.endswith("pattern"):
            print(f"{name}: {', '.join(labels)}")


if __name__ == "__main__":
    main()
