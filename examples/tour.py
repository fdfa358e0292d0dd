"""Two stories as a script: a function, and a network, from source to saved Transformer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hardmax as hm


def main() -> None:
    function()
    print()
    network()


def function() -> None:
    """sin(x) times exp(-y), by what every route would take and by the one that is picked."""
    x, y = hm.variables("x y")
    domain = {"x": (-1, 1), "y": (0, 1)}
    plan = hm.plan(hm.sin(x) * hm.exp(-y), on=domain, error=1e-3)
    for offer in plan.open:
        mark = "*" if offer.route in plan.best else " "
        r = offer.resources
        print(f"{mark} {offer.route:<12} {r['layers']} layers, {r['parameters']:,} parameters")

    wave = hm.compile(hm.sin(x) * hm.exp(-y), on=domain, error=1e-3)
    tell(wave)
    print(wave(x=0.5, y=0.2), "beside", wave.claim.target(x=0.5, y=0.2))


def network() -> None:
    """The bump, read from a file, compiled, saved and read back."""
    bump = hm.load_network(Path(__file__).with_name("bump.npz"))
    print(bump)
    model = hm.compile(bump, on="[-1,1]^2", error=1e-3)
    tell(model)
    print(model([0.3, -0.5]), "beside", bump([0.3, -0.5]))

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "bump.safetensors"
        hm.save(model, place, hm.certify(model))
        again = hm.load(place)
        print(f"{place.name} has {place.stat().st_size:,} bytes and says {again.claim}")


def tell(model: hm.Construction) -> None:
    """The bill, the ledger, the error seen, and what the checker proves."""
    print(model.bill)
    for share in model.claim.ledger:
        print(f"  {share.cause:<13} {share.where:<20} {share.amount:.6g}")
    print(f"  claimed {model.claim.error:.6g} on {model.claim.domain}")
    print(hm.measure(model))
    print(hm.certify(model))


if __name__ == "__main__":
    main()
