"""The README's session as a script, from a network to a saved Transformer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hardmax as hm


def main() -> None:
    network = hm.load_network(Path(__file__).with_name("bump.npz"))
    print(network)

    model = hm.compile(network, on="[-1,1]^2", error=1e-3)
    print(model.bill)
    for share in model.claim.ledger:
        print(f"  {share.cause:<10} {share.where:<20} {share.amount:.6g}")
    print(f"  claimed {model.claim.error:.6g} on {model.claim.domain}")
    print(hm.measure(model))
    print(model([0.3, -0.5]), "beside", network([0.3, -0.5]))

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "bump.safetensors"
        hm.save(model, place)
        again = hm.load(place)
        print(f"{place.name} has {place.stat().st_size:,} bytes and says {again.claim}")


if __name__ == "__main__":
    main()
