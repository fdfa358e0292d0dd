"""`hardmax export`: a model for other people's tools."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from hardmax import Certificate, Construction, FileError, RequestError, Verdict, interop
from hardmax.cli import _options
from hardmax.cli._errors import note_written, telling_refusals
from hardmax.cli._files import check_writable, open_certified
from hardmax.cli._records import print_json
from hardmax.cli._suite import export_suite
from hardmax.core import fingerprint


@dataclass(frozen=True)
class Order:
    """What is written where; `dtype` is None for the format that the claim is about."""

    construction: Construction
    certificate: Certificate | None  # about this very construction
    place: str
    dtype: str | None
    architecture: str
    norm: str

    @property
    def format(self) -> str:
        return self.construction.claim.format if self.dtype is None else self.dtype

    @property
    def plain_certificate(self) -> dict[str, object] | None:
        return None if self.certificate is None else self.certificate.as_dict()

    @property
    def certified(self) -> float | None:
        """The bound on the error in this format, if the stored certificate proves the claim."""
        if self.certificate is None or self.certificate.verdict is not Verdict.PROVED:
            return None
        return self.certificate.formats.get(self.format)


@dataclass(frozen=True)
class Export:
    """What became of it: how to open it, and what else there is to say."""

    opened_by: str
    said: dict[str, object] = field(default_factory=dict)


@click.command("export", short_help="Write a model for other people's tools.")
@click.argument("model", metavar="[FILE]", required=False)
@click.option("--to", "kind", metavar="TOOL", help="One of those above.")
@click.option("-o", "--output", "place", metavar="PLACE", help="Where to write.")
@click.option(
    "--dtype",
    metavar="FORMAT",
    help="In which the weights are stored.  [default: the format that the claim is about]",
)
@click.option(
    "--architecture", metavar="NAME", help="Of huggingface: auto, t5, gpt2 or llama.  [auto]"
)
@click.option("--norm", metavar="KIND", help="Of huggingface: ballast or epsilon.  [ballast]")
@click.option("--suite", metavar="FOLDER", help="Write the gallery of programs as ground truth.")
@click.option("--programs", metavar="NAMES", help="Of --suite: reverse,sort.  [default: all]")
@click.option("--symbols", type=int, metavar="NUMBER", help="Of --suite's alphabets.  [default: 4]")
@click.option("--length", type=int, metavar="NUMBER", help="Of --suite's words.  [default: 4]")
@click.option("--seed", type=int, metavar="NUMBER", help="Of --suite's words.  [default: 0]")
@click.option("--only", metavar="TOOL", help="Of --suite: hf or lens.  [default: both]")
@_options.as_json
@telling_refusals
def export_model(
    model: str | None,
    kind: str | None,
    place: str | None,
    dtype: str | None,
    architecture: str | None,
    norm: str | None,
    as_json: bool,
    **of_suite: str | int | None,
) -> None:
    """Write FILE, a model saved by `hardmax compile`, for one of these tools; or a whole suite.

    \b
      huggingface  a folder that an unmodified class of transformers loads
      onnx         a file for onnxruntime and its like
      torch        a folder with weights and a readable model.py that needs torch alone
      jax          the same for JAX
      lens         files for TransformerLens, with a label for every hook

    For onnx, torch and jax the claim is written, too, and the certificate that FILE holds: its
    bounds are about these very weights in their format. A folder for huggingface is certified by
    itself, norms and activations charged: hardmax verify PLACE --write.

    --suite writes legible models of two dozen programs for Hugging Face and TransformerLens, with
    their circuits, words, answers, and certificates: a benchmark for circuit discovery. Each folder
    is proved; what fits no home stands in index.json with the reason. After Ctrl-C the same command
    goes on. hardmax verify FOLDER/sort/lens proves one again.

    \b
    Examples:
      hardmax export product.safetensors --to onnx -o product.onnx --dtype float32
      hardmax export sort.safetensors --to huggingface -o sort-t5 --architecture t5
      hardmax export sort.safetensors --to torch -o sort-torch
      hardmax export --suite ground-truth --programs reverse,sort,histogram --symbols 3
    """
    asked = {name: given for name, given in of_suite.items() if given is not None}
    if "suite" in asked:
        others = {"FILE": model, "--to": kind, "-o": place, "--dtype": dtype}
        others |= {"--architecture": architecture, "--norm": norm}
        _refuse_others("--suite writes a folder of its own", others)
        export_suite(asked, as_json)
        return
    _refuse_others("This is for --suite", {f"--{name}": given for name, given in asked.items()})
    model, kind, place = _named(model, kind, place)
    writer = _writer_of(kind)
    if kind != "huggingface" and (architecture is not None or norm is not None):
        raise RequestError(f"--architecture and --norm are for --to huggingface, not for {kind}.")
    _check_place(kind, place, model)
    construction, stored = open_certified(model)
    about_this = stored is not None and not stored.altered(construction)
    order = Order(
        construction,
        stored if about_this else None,
        place,
        dtype,
        architecture or "auto",
        norm or "ballast",
    )
    done = writer(order)
    note_written(place)
    _tell(kind, order, done, as_json)


def _refuse_others(why: str, others: Mapping[str, object]) -> None:
    given = [name for name, one in others.items() if one is not None]
    if given:
        raise RequestError(f"{why}: leave {' and '.join(given)} out.")


def _named(model: str | None, kind: str | None, place: str | None) -> tuple[str, str, str]:
    """What has to be named unless it is a suite that is written."""
    if model is None or kind is None or place is None:
        raise RequestError(
            "Name a model, a tool and a place: hardmax export FILE --to TOOL -o PLACE; or write "
            "the gallery: hardmax export --suite FOLDER."
        )
    return model, kind, place


def _writer_of(kind: str) -> Callable[[Order], Export]:
    if kind not in TOOLS:
        raise RequestError(f"--to is one of {', '.join(TOOLS)}, not {kind!r}.")
    return TOOLS[kind]


def _check_place(kind: str, place: str, model: str) -> None:
    """What cannot be written is refused before any work."""
    if kind == "onnx":
        check_writable(place, source=model, called="the model")
        return
    if os.path.exists(place) and not os.path.isdir(place):
        raise FileError(f"{place} is a file, but --to {kind} writes a folder. Name another place.")


def _to_huggingface(order: Order) -> Export:
    written = interop.write_huggingface(
        order.construction,
        order.place,
        order.architecture,
        dtype=order.dtype,
        norm=order.norm,
    )
    said: dict[str, object] = {
        "architecture": written.architecture,
        "class": written.class_name,
        "why": written.why,
        "norm": written.norm,
        "gain": written.gain,
    }
    return Export(f"transformers.{written.class_name}.from_pretrained({order.place!r})", said)


def _to_onnx(order: Order) -> Export:
    interop.write_onnx(
        order.construction,
        order.place,
        dtype=order.format,
        certificate=order.plain_certificate,
    )
    return Export(f"onnxruntime.InferenceSession({order.place!r})")


def _to_framework(framework: str, opened_by: str) -> Callable[[Order], Export]:
    def write(order: Order) -> Export:
        interop.write_standalone(
            order.construction,
            order.place,
            framework,
            dtype=order.format,
            certificate=order.plain_certificate,
        )
        return Export(f"{opened_by}, in {os.path.join(order.place, 'model.py')}")

    return write


def _to_lens(order: Order) -> Export:
    interop.export_lens_files(order.construction, order.place, order.format)
    return Export(f"hardmax.interop.read_lens_files({order.place!r})")


TOOLS: dict[str, Callable[[Order], Export]] = {
    "huggingface": _to_huggingface,
    "onnx": _to_onnx,
    "torch": _to_framework("torch", "Model.load"),
    "jax": _to_framework("jax", "load"),
    "lens": _to_lens,
}


def _tell(kind: str, order: Order, done: Export, as_json: bool) -> None:
    certified = None if kind == "huggingface" else order.certified
    if as_json:
        record: dict[str, object] = {
            "to": kind,
            "written": order.place,
            "bytes": _size(order.place),
            "dtype": order.format,
            "certified": certified,
            "fingerprint": fingerprint(order.construction.transformer),
        }
        print_json(record | done.said)
        return
    lines = [f"written     {order.place} ({order.format}, {_size(order.place):,} bytes)"]
    lines += [f"{name:<11} {said}" for name, said in done.said.items()]
    lines.append(f"open it     {done.opened_by}")
    if kind == "huggingface":
        proof = f"by itself: hardmax verify {order.place} --write"
    elif certified is None:
        proof = f"nothing in {order.format}: FILE holds no proof"
    else:
        claimed = order.construction.claim.error
        sign = "<=" if certified <= claimed else "but not below the"
        proof = f"{certified:.3g} {sign} {claimed:.3g} claimed, in {order.format}"
    click.echo("\n".join([*lines, f"certified   {proof}"]))


def _size(place: str) -> int:
    """Bytes of what is there: a file, or the files of a folder."""
    path = Path(place)
    files = [path] if path.is_file() else [one for one in path.iterdir() if one.is_file()]
    return sum(one.stat().st_size for one in files)
