"""A program and a function in PyTorch: words in and out, a head switched off, gradients, a folder.

python examples/doors_torch.py      (extra torch)
"""

from __future__ import annotations

import tempfile

import torch

import hardmax as hm


def main() -> None:
    words()
    numbers()


def words() -> None:
    """Attention patterns have names, and can be hooked."""
    model = hm.compile(hm.programs.reverse, alphabet="abcde", length=5)
    module = hm.interop.write_torch(model, "float32")
    ids = module.encode(["cab", "dea"])
    print("cab, dea backwards:", ["".join(word) for word in module.decode(module(ids))])

    seen = module.patterns(ids)["blocks.1.pattern"][0, 0]
    print(module.legend["blocks.1.pattern"][0], "->", seen.argmax(dim=-1).tolist())

    def off(point: torch.nn.Module, given: object, weights: torch.Tensor) -> torch.Tensor:
        return weights * 0.0

    switch = module.blocks[1].pattern.register_forward_hook(off)
    print("without that head:", "".join(module.decode(module(ids))[0]))
    switch.remove()


def numbers() -> None:
    """Slopes are PyTorch's; the folder needs torch alone, and runs its own model.py."""
    model = hm.compile("x*y", on="[-1,1]^2", error=1e-3)
    module = hm.interop.write_torch(model, "float32")
    x = torch.tensor([[0.5, -0.5]], requires_grad=True)
    product = module(x)
    product.sum().backward()
    print(f"0.5 * -0.5 = {product.item():.3f}, slopes {x.grad.tolist()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        written = hm.interop.write_standalone(model, folder, "torch", dtype="float32")
        print("a folder with", ", ".join(sorted(path.name for path in written.folder.iterdir())))


if __name__ == "__main__":
    main()
