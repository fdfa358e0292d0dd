"""`hardmax verify`: the claim of a file established afresh, from nothing but that file."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass

import click

from hardmax import Certificate, Construction, Folder, Verdict, open_folder, save
from hardmax._atomic import write_atomically
from hardmax._folders import CERTIFICATE
from hardmax._reading import naming
from hardmax.cli import _options
from hardmax.cli._certifying import Effort, check_error_plot, draw_error, leave, tell_verdict
from hardmax.cli._errors import note_written, telling_refusals
from hardmax.cli._files import (
    check_different,
    check_picture_place,
    check_writable,
    open_certified,
)
from hardmax.cli._records import certificate_record, model_record, print_json


@click.command("verify", short_help="Establish a model's claim afresh, from its file alone.")
@click.argument("model", metavar="FILE|FOLDER")
@_options.tolerance
@_options.budget
@_options.jobs
@click.option("--certificate", "place", metavar="JSON", help="Write the certificate as JSON.")
@click.option(
    "--write/--no-write",
    default=False,
    show_default=True,
    help="Store the new certificate in FILE or FOLDER, unless it is undecided.",
)
@_options.plot
@_options.as_json
@telling_refusals
def verify_model(
    model: str,
    tolerance: str | None,
    budget: str | None,
    jobs: int,
    place: str | None,
    write: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Establish the claim of FILE, a model saved by `hardmax compile`, from its weights alone,
    and compare with the certificate stored in it, which is never believed.

    Exits with 0 only if the claim is proved and nothing contradicts the stored certificate; with 1
    if it is refuted or undecided, or if weights, target, domain or claim were altered since it was
    certified. Ctrl-C shows the best verdict so far and leaves FILE as it was.

    FOLDER is one that `hardmax export --to huggingface` wrote: its stored weights and its config
    are read back, and certified in the architecture that runs them, norms and activations charged.

    \b
    Examples:
      hardmax verify product.safetensors
      hardmax verify product.safetensors --tolerance 0.01 --budget "2e8 work" --plot error.svg
      hardmax verify product.safetensors --write --certificate certificate.json
      hardmax verify sort-t5 --write
    """
    effort = Effort.of(tolerance, budget, jobs)
    _check_places(model, place, write, plot)
    folder = open_folder(model) if os.path.isdir(model) else None
    construction, stored = open_certified(model) if folder is None else folder.certified
    check_error_plot(construction, plot)
    visible = not as_json and sys.stderr.isatty()
    certificate = effort.certify(folder or construction, visible=visible)
    altered = () if folder is None else folder.altered
    comparison = CertificateComparison.of(construction, stored, certificate, altered)
    kept = _keep(folder or construction, certificate, model if write else None, place, plot)
    if as_json:
        print_json(model_record(construction) | comparison.record() | kept)
    else:
        from hardmax.cli._tables import print_verified

        print_verified(construction, certificate, [comparison.agreement, *_what_was_kept(kept)])
    _end(comparison)


@dataclass(frozen=True)
class CertificateComparison:
    """A certificate made now beside the stored one, and everything in which they part."""

    found: Certificate
    stored: Certificate | None
    altered: tuple[str, ...]
    contradictions: tuple[str, ...]

    @classmethod
    def of(
        cls,
        construction: Construction,
        stored: Certificate | None,
        found: Certificate,
        files: tuple[str, ...] = (),
    ) -> CertificateComparison:
        """`files` are those of a folder that are not what the stored certificate is about."""
        altered = () if stored is None else (*stored.altered(construction), *files)
        same = stored if not altered else None
        return cls(found, stored, altered, () if same is None else _contradictions(same, found))

    @property
    def holds(self) -> bool:
        proved = self.found.verdict is Verdict.PROVED
        return proved and not self.altered and not self.contradictions

    @property
    def agreement(self) -> str:
        """What is said of the stored certificate if there is nothing to complain about."""
        if self.stored is None:
            return "no certificate was stored with it"
        if self.altered or self.contradictions:
            return ""
        then = f"{self.stored.verdict} by hardmax {self.stored.version or '(unknown)'}"
        if self.found.verdict is not self.stored.verdict is Verdict.PROVED:
            return f"the stored certificate says {then}, which is not confirmed"
        return f"the stored certificate is about this very model: {then}"

    def record(self) -> dict[str, object]:
        return {
            "verdict": self.found.verdict.name,
            "certificate": certificate_record(self.found),
            "stored": certificate_record(self.stored),
            "altered": list(self.altered),
            "contradictions": list(self.contradictions),
            "holds": self.holds,
        }


def _contradictions(stored: Certificate, found: Certificate) -> tuple[str, ...]:
    """What two certificates about one model cannot both say.

    A measured error is attained and a certified one is never exceeded, whoever says so, so that
    the one's measured is at most the other's certified. Verdicts differ only by undecided. A float
    format counts only if it is confirmed.
    """
    against = []
    if {stored.verdict, found.verdict} == {Verdict.PROVED, Verdict.REFUTED}:
        against.append(f"it says {stored.verdict}, but the claim is {found.verdict}")
    if found.measured > stored.certified:
        against.append(
            f"it certifies {stored.certified:.6g}, but an error of {found.measured:.6g} is attained"
        )
    if stored.measured > found.certified:
        against.append(
            f"it measured {stored.measured:.6g}, but no error exceeds {found.certified:.6g}"
        )
    if found.verdict is Verdict.PROVED and (more := set(stored.holds_in) - set(found.holds_in)):
        against.append(f"it says that the claim holds in {', '.join(sorted(more))}: not confirmed")
    return tuple(against)


def _check_places(model: str, place: str | None, write: bool, plot: str | None) -> None:
    """Whatever cannot be written in the end is found before the work."""
    check_different(certificate=place, plot=plot)
    if place is not None:
        check_writable(place, source=model, called="the model")
    if plot is not None:
        check_picture_place(plot, source=model, called="the model")
    if write:
        check_writable(os.path.join(model, CERTIFICATE) if os.path.isdir(model) else model)


def _keep(
    subject: Construction | Folder,
    found: Certificate,
    model: str | None,
    place: str | None,
    plot: str | None,
) -> dict[str, str | None]:
    """Write what was asked for; the model itself only if something was decided."""
    if model is not None and found.verdict is Verdict.UNDECIDED:
        model = None
    if place is not None:
        _write_json(found, place)
        note_written(place)
    if plot is not None:
        draw_error(_construction_of(subject), found, plot)
    if model is not None:
        if isinstance(subject, Folder):
            model = str(subject.keep(found))
        else:
            save(subject, model, found)
        note_written(model)
    return {"written": model, "certificate_file": place, "plot": plot}


def _construction_of(subject: Construction | Folder) -> Construction:
    return subject.construction if isinstance(subject, Folder) else subject


def _write_json(certificate: Certificate, place: str) -> None:
    text = json.dumps(certificate.as_dict(), indent=2, allow_nan=False) + "\n"
    with naming(place):
        write_atomically(place, text.encode())


def _what_was_kept(kept: dict[str, str | None]) -> list[str]:
    words = {"written": "stored in", "certificate_file": "written to", "plot": "drawn"}
    return [f"{words[key]} {path}" for key, path in kept.items() if path is not None]


def _end(comparison: CertificateComparison) -> None:
    """One sentence on stderr for each thing that is wrong, and the exit code."""
    certificate = comparison.found
    if comparison.altered:
        about = "; the verdict is about the file as it is now"
        click.echo(
            f"Altered since it was certified: {_in_a_list(comparison.altered)}{about}.", err=True
        )
    for sentence in comparison.contradictions:
        click.echo(f"The stored certificate is false: {sentence}.", err=True)
    tell_verdict(certificate)
    if not comparison.holds:
        leave(certificate)


def _in_a_list(parts: tuple[str, ...]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
