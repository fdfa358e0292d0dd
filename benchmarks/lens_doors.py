"""Compiled models in TransformerLens: wrong words, and which share of the bound is used up.

    python -m benchmarks.lens_doors                   everything that the installed version has
    python -m benchmarks.lens_doors --only programs   one part: programs, functions, folders
    python -m benchmarks.lens_doors --quick           fewer points and homes

It runs where TransformerLens is, for example in .venv-lens4 or .venv-lens3 that `make test-lens`
makes. Words are all those of up to four symbols out of three. What a model computes is compared
with the reference evaluator, and the difference with what both may be off by: the smaller of the
analysis' rounding bounds and the certificate's bounds, each for the model's format and for float64.
Of a folder the difference is that from the program or function itself, and the bound what the
folder's own certificate says for its format, norms and rotary positions included.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._driver import Part, parse, run
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sources import random_relu
from hardmax.analysis import rounding_bound
from hardmax.core import evaluate

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))  # which is not a package

from gallery import GALLERY, is_free

DTYPES = ("float64", "float32")
SIZE, LENGTH = 3, 4
HOMES = ("t5", "gpt2", "llama")
FUNCTIONS = {
    "x*y": "x*y",
    "exp(x)*y": "exp(x)*y",
    "sin(3x)y + x^2": "sin(3*x)*y+x**2",
    "max(x,y)": "max(x,y)",
    "x/(y+3)": "x/(y+3)",
}


def compiled() -> Iterator[tuple[str, hm.Construction]]:
    """Programs of the gallery whose alphabet and length are free."""
    for name, entry in GALLERY.items():
        if is_free(entry):
            source, words = entry(SIZE, LENGTH)
            yield name, hm.compile(source, alphabet=words.alphabet, length=LENGTH)


def smooth() -> Iterator[tuple[str, hm.Construction]]:
    for name, text in FUNCTIONS.items():
        yield name, hm.compile(text, on="[-1,1]^2", error=1e-2, float="float32")
    for route in ("attention", "attention-only"):
        network = random_relu(0, 2, 8, 8, 1)
        yield f"2-8-8-1 {route}", hm.compile(network, on="[-1,1]^2", error=1e-2, route=route)


def every_word(construction: hm.Construction) -> list[list[list[object]]]:
    alphabet = construction.transformer.input.alphabet
    return [
        [list(word) for word in itertools.product(alphabet, repeat=n)] for n in range(1, LENGTH + 1)
    ]


def answers_of(model: Any, inputs: Any, *, words: bool, folder: bool) -> tuple[np.ndarray, Any]:
    """The numbers that the last stream says, read out in float64, and what is decoded."""
    import torch

    encoded = model.encode(inputs)
    start = {} if words or folder else {"start_at_layer": 0}
    with torch.no_grad():
        logits, seen = model.run_with_cache(encoded, **start)
    last = seen[f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"].double().numpy()
    return last, model.decode(logits)


def read_out(transformer: Any, last: np.ndarray, length: int) -> np.ndarray:
    """As evaluate gives it: for each word a row for each symbol."""
    readout = transformer.readout
    token = slice(last.shape[1] - length, None) if readout.token is None else readout.token
    stream = last[:, token, : transformer.width]
    return np.asarray(stream @ readout.weights.T + readout.bias)


def both_off(construction: hm.Construction, dtype: str, certificate: hm.Certificate) -> float:
    """How far two evaluations may be apart, one in the format and one in float64."""
    box = construction.claim.domain if hasattr(construction.claim.domain, "dimension") else None
    analytic = sum(
        float(rounding_bound(construction.transformer, box, one).max())
        for one in (dtype, "float64")
    )
    return min(analytic, certificate.formats[dtype] + certificate.formats["float64"])


def apart_on_words(
    model: Any, construction: hm.Construction, transformer: Any, folder: bool
) -> tuple[int, int, float]:
    """Words, wrong ones, and the largest difference."""
    count, wrong, apart = 0, 0, 0.0
    target = construction.claim.target
    for words in every_word(construction):
        last, decoded = answers_of(model, words, words=True, folder=folder)
        y = read_out(transformer, last, len(words[0]))
        if folder:
            meant = np.array([[[float(c) for c in row] for row in target(word)] for word in words])
        else:
            meant = np.array(evaluate(transformer, words))
        apart = max(apart, float(np.abs(y.reshape(meant.shape) - meant).max()))
        count += len(words)
        wrong += sum(found != construction(w) for found, w in zip(decoded, words, strict=True))
    return count, wrong, apart


def programs(settings: Settings) -> Report:
    """Models without norms, from tokens."""
    sheet = _sheet(settings, "programs", "wrong words")
    shares: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
    checks, refused, record = [], [], []
    for name, construction in compiled():
        certificate = hm.certify(construction)
        for dtype in DTYPES:
            try:
                model = hm.interop.write_transformer_lens(construction, dtype)
            except hm.RequestError as reason:
                refused.append(f"{name}: {reason}")
                break
            count, wrong, apart = apart_on_words(
                model, construction, construction.transformer, folder=False
            )
            bound = both_off(construction, dtype, certificate)
            shares[dtype].append(share(apart, bound))
            checks += _checks(f"{name} in {dtype}", apart, bound, wrong)
            sheet.table.add_row(name, dtype, *_shown(apart, bound), f"{wrong} of {count}")
            record.append([name, dtype, apart, bound, wrong, count])
    notes = [_summary(shares), *refused]
    return Report([sheet], checks, {"programs": record}, notes)


def functions(settings: Settings) -> Report:
    """Models without norms, from the stream that layer 0 starts from."""
    sheet = _sheet(settings, "functions", "")
    shares: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
    checks, record = [], []
    for name, construction in smooth():
        certificate = hm.certify(construction)
        for dtype in DTYPES:
            model = hm.interop.write_transformer_lens(construction, dtype)
            points = _points(construction, dtype, settings)
            _, decoded = answers_of(model, points, words=False, folder=False)
            apart = float(np.abs(decoded - evaluate(construction.transformer, points)).max())
            bound = both_off(construction, dtype, certificate)
            shares[dtype].append(share(apart, bound))
            checks += _checks(f"{name} in {dtype}", apart, bound, 0)
            sheet.table.add_row(name, dtype, *_shown(apart, bound), "")
            record.append([name, dtype, apart, bound])
    return Report([sheet], checks, {"functions": record}, [_summary(shares)])


def folders(settings: Settings) -> Report:
    """Folders of stock classes in the bridge of 4.x, against the certificates of the folders."""
    sheet = _sheet(settings, "folders", "wrong words")
    shares: dict[str, list[float]] = {dtype: [] for dtype in DTYPES}
    checks, refused, record = [], [], []
    for home in HOMES[: 2 if settings.quick else None]:
        for name, construction in itertools.chain(compiled(), smooth()):
            for dtype in DTYPES:
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        hm.interop.write_huggingface(construction, folder, home, dtype=dtype)
                    except hm.RequestError as reason:
                        refused.append(f"{name} in {home}, {dtype}: {reason}")
                        continue
                    row = _opened(folder, construction, dtype, settings)
                apart, bound, wrong, proved = row
                if np.isfinite(bound):
                    shares[dtype].append(share(apart, bound))
                checks += _checks(f"{name} in {home}, {dtype}", apart, bound, wrong)
                sheet.table.add_row(
                    f"{name}, {home}", dtype, *_shown(apart, bound), f"{wrong}  {proved}"
                )
                record.append([name, home, dtype, apart, bound, wrong, proved])
    return Report([sheet], checks, {"folders": record}, [_summary(shares), *refused])


def _opened(
    folder: str, construction: hm.Construction, dtype: str, settings: Settings
) -> tuple[float, float, int, str]:
    certificate = hm.certify_folder(folder)
    model = hm.interop.open_in_lens(folder)
    stored = hm.interop.read_huggingface(folder).stored.transformer
    bound, verdict = certificate.formats.get(dtype, np.inf), certificate.verdict.name.lower()
    if isinstance(stored.input, hm.SequenceInput):
        _, wrong, apart = apart_on_words(model, construction, stored, folder=True)
        return apart, bound, wrong, verdict
    points = _points(construction, dtype, settings)
    _, decoded = answers_of(model, points, words=False, folder=True)
    meant = np.array([construction.claim.target(point) for point in points]).reshape(decoded.shape)
    return float(np.abs(decoded - meant).max()), bound, 0, verdict


def _points(construction: hm.Construction, dtype: str, settings: Settings) -> np.ndarray:
    """Numbers of the format, so that all evaluate the same points."""
    sample = construction.claim.domain.sample(settings.points // 100, np.random.default_rng(0))
    return np.asarray(sample).astype(dtype).astype(float)


def _sheet(settings: Settings, part: str, last: str) -> Sheet:
    found = importlib.metadata.version("transformer-lens")
    return Sheet(
        f"python -m benchmarks.lens_doors --only {part}" + " --quick" * settings.quick,
        f"TransformerLens {found}. Required: no wrong word, and no difference beyond the bound.",
        *("·model", "·dtype", "difference", "bound", "share", f"·{last}"),
    )


def share(apart: float, bound: float) -> float:
    """Of a bound that is 0, a difference of 0 is nothing."""
    return apart / bound if apart else 0.0


def _shown(apart: float, bound: float) -> tuple[str, str, str]:
    return f"{apart:.1e}", f"{bound:.1e}", f"{share(apart, bound):.1e}"


def _checks(what: str, apart: float, bound: float, wrong: int) -> list[Check]:
    return [
        Check(f"{what}: {apart:.2g} is within {bound:.2g}", apart <= bound),
        Check(f"{what}: {wrong} wrong words", not wrong),
    ]


def _summary(shares: dict[str, list[float]]) -> str:
    return "\n".join(
        f"{dtype}: {len(found)} models; share of the bound: median {np.median(found):.1e}, "
        f"largest {max(found):.1e}"
        for dtype, found in shares.items()
        if found
    )


def main(arguments: Sequence[str] | None = None) -> int:
    found = importlib.metadata.version("transformer-lens")
    parts: dict[str, Part] = {"programs": programs, "functions": functions}
    if not found.startswith("3."):
        parts["folders"] = folders
    options = parse("benchmarks.lens_doors", __doc__, parts, arguments)
    return run(options, parts, Settings.of(quick=options.quick, out=options.out))


if __name__ == "__main__":
    sys.exit(main())
