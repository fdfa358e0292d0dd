"""What the commands report, as tables for people. Opening this file loads Rich."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from hardmax import Bill, Certificate, Claim, Construction, Measurement, Verdict
from hardmax.cli._answers import Evaluation
from hardmax.cli._records import equation, semantics, target_text, tensor_shapes
from hardmax.core import Target, Words, fingerprint
from hardmax.lowering import routes_for

_MOST_ROWS = 40
_UNITS = {"attention_memory": "attention memory (bytes)"}


def print_compiled(
    construction: Construction,
    measurement: Measurement,
    certificate: Certificate | None,
    asked: float | None,
    saved: str | None,
    plot: str | None,
) -> None:
    """Bill, ledger, and the inequalities that everything is about."""
    console, claim = plain_console(), construction.claim
    console.print(_headline(construction), soft_wrap=True)
    print_table(console, _bill_table(construction.bill))
    print_table(console, _ledger_table(claim))
    if certificate is not None:
        print_table(console, _certificate_table(certificate))
    console.print()
    holds = measurement.error <= claim.error
    line = f"{measurement.error:.6g} measured {'<=' if holds else '>'} {claim.error:.6g} claimed"
    line += _in_format(claim)
    if asked is not None:
        line += f" <= {asked:g} asked"
    among = "" if isinstance(claim.domain, Words) else "points of "
    console.print(f"{line}, on {measurement.points:,} {among}{claim.domain}", soft_wrap=True)
    if certificate is not None:
        console.print(str(certificate), soft_wrap=True)
    if plot is not None:
        console.print(f"drawn {plot}", soft_wrap=True)
    if saved is not None:
        console.print(f"saved {saved}", soft_wrap=True)
    elif holds and (certificate is None or certificate.verdict is Verdict.PROVED):
        console.print("not saved; -o FILE does", soft_wrap=True)


def print_verified(
    construction: Construction, certificate: Certificate, remarks: list[str]
) -> None:
    """What was claimed, what was established, and what was done with it."""
    console = plain_console()
    console.print(_headline(construction), soft_wrap=True)
    claim = construction.claim
    console.print(
        f"claimed: error <= {claim.error:.6g}{_in_format(claim)} on {claim.domain}", soft_wrap=True
    )
    print_table(console, _certificate_table(certificate))
    console.print()
    console.print(str(certificate), soft_wrap=True)
    for remark in filter(None, remarks):
        console.print(remark, soft_wrap=True)


def print_model(construction: Construction, certificate: Certificate | None, file: str) -> None:
    """Everything a compiled model says of itself."""
    console = plain_console()
    console.print(_headline(construction), soft_wrap=True)
    claim = construction.claim
    console.print(f"claimed{_in_format(claim)} on {claim.domain}", soft_wrap=True)
    console.print(f"fingerprint {fingerprint(construction.transformer)}", soft_wrap=True)
    if certificate is None:
        console.print(f"no certificate; hardmax verify {file} makes one", soft_wrap=True)
    else:
        console.print(f"certificate {certificate}", soft_wrap=True)
        altered = certificate.altered(construction)
        said = f"altered since it was certified: {', '.join(altered)}" if altered else "stored"
        console.print(f"  {said}, not re-established: run hardmax verify {file}", soft_wrap=True)
    print_table(console, _bill_table(construction.bill))
    print_table(console, _ledger_table(construction.claim))
    _print_witness(console, construction)


def print_network(network: Target) -> None:
    """The layers of a network, and where it can go from here."""
    console = plain_console()
    console.print(f"{target_text(network)}, {network.parameters:,} parameters", soft_wrap=True)
    table = plain_table("tensor", "shape")
    for name, shape in tensor_shapes(network).items():
        table.add_row(name, " x ".join(map(str, shape)))
    print_table(console, table)
    console.print(f"\nroutes: {', '.join(routes_for(network))}", soft_wrap=True)


def print_evaluation(evaluation: Evaluation) -> None:
    """Outputs beside the target's own values, with the bound that is promised inside."""
    console, claim = plain_console(), evaluation.claim
    table = plain_table("point", "output", "Transformer", "target", "difference", "bound")
    shown = max(1, _MOST_ROWS // evaluation.outputs.shape[1])
    for i in range(min(shown, len(evaluation.points))):
        bound = f"{claim.error:.6g}" if evaluation.inside[i] else "none"
        pairs = zip(evaluation.outputs[i], evaluation.targets[i], strict=True)
        for j, (output, target) in enumerate(pairs):
            point = _point(evaluation.points[i]) if j == 0 else ""
            difference = f"{abs(output - target):.3g}"
            table.add_row(point, f"y{j}", f"{output:.9g}", f"{target:.9g}", difference, bound)
    console.print(table)
    more = len(evaluation.points) - shown
    if more > 0:
        console.print(f"and {more:,} more points; --json prints all", soft_wrap=True)


def plain_console() -> Console:
    """Plain text in, plain text out: a domain such as [-1,1]^2 is not markup."""
    return Console(markup=False, highlight=False, emoji=False)


def plain_table(*columns: str, gap: int = 3) -> Table:
    """Words to the left, numbers to the right; the first column holds words."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.padding, table.collapse_padding = (0, 1 if gap > 1 else 0), gap < 3
    words = {"where", "output", "shape", "holds", "established"}
    for number, name in enumerate(columns):
        left = number == 0 or name in words
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    return table


def print_table(console: Console, table: Table) -> None:
    """A blank line, then the table without the blanks that fill its last column."""
    with console.capture() as captured:
        console.print(table)
    console.print()
    for line in captured.get().splitlines():
        console.out(line.rstrip(), highlight=False)


def _in_format(claim: Claim) -> str:
    """The format of the claim, unless it is the usual one."""
    return "" if claim.format == "float64" else f" in {claim.format}"


def _headline(construction: Construction) -> str:
    target = equation(construction.claim.target)
    return f"{target} -> Transformer, route {construction.route}, {semantics(construction)}"


def _bill_table(bill: Bill) -> Table:
    """Every field; the source's own parameter count stands beside the Transformer's."""
    source = bill.source_parameters
    table = plain_table("bill", "Transformer", *(("source", "ratio") if source else ()))
    for name, value in bill.as_dict().items():
        if name == "source_parameters":
            continue
        label = _UNITS.get(name, name.replace("_", " "))
        if source and name.endswith("parameters"):
            table.add_row(label, _number(value), _number(source), f"{value / source:.2f}x")
        else:
            table.add_row(label, _number(value))
    return table


def _ledger_table(claim: Claim) -> Table:
    """Where the error comes from; the last line is the sum."""
    table = plain_table("ledger", "where", "error")
    for share in claim.ledger:
        table.add_row(share.cause, share.where, f"{share.amount:.6g}")
    if table.rows:
        table.add_section()
    table.add_row("claimed", "", f"{claim.error:.6g}")
    return table


def _certificate_table(certificate: Certificate) -> Table:
    """How the numbers were established, in which float formats they hold, and on what trust."""
    table = plain_table("certificate", "established")
    table.add_row("verdict", str(certificate.verdict))
    if certificate.formats:
        held, asked = certificate.holds_in, certificate.asked_holds_in
        table.add_row("holds in", ", ".join(held) or "no float format")
        if asked != held:
            within = f"{', '.join(asked) or 'no float format'}: within {certificate.asked:g}"
            table.add_row("as asked in", within)
        rest = [f"{k} ({v:.3g})" for k, v in certificate.formats.items() if k not in held]
        if rest:
            table.add_row("not shown in", ", ".join(rest))
    if certificate.worst is not None:
        name = "counterexample" if certificate.counterexample is not None else "largest seen at"
        table.add_row(name, _point(list(certificate.worst)))
    table.add_row("method", _effort(certificate))
    for number, statement in enumerate(certificate.statements):
        table.add_row("" if number else "stating", statement)
    for number, assumption in enumerate(certificate.assumptions):
        table.add_row("" if number else "assuming", assumption)
    return table


def _effort(certificate: Certificate) -> str:
    """How, how much and how long: 12,345 boxes, 3.1e+05 work, 0.25 s."""
    counted = {"enumeration": "words", "value sets": "cases", "blocks": "words"}.get(
        certificate.method, "boxes"
    )
    words = [certificate.method, f"{certificate.boxes:,} {counted}"]
    if not certificate.boxes:
        words.pop()
    elif certificate.method == counted:
        words.pop(0)
    if certificate.work:
        words.append(f"{certificate.work:.2g} work")
    return ", ".join([*words, f"{certificate.seconds:.2f} s"])


def _print_witness(console: Console, construction: Construction) -> None:
    holdings = () if construction.witness is None else construction.witness.holdings
    if not holdings:
        console.print("\nno witness")
        return
    table = plain_table("witness: after", "holds", "token", "within")
    for holding in holdings[:_MOST_ROWS]:
        after = "embedding" if holding.sublayer < 0 else f"sublayer {holding.sublayer}"
        held = f"value {holding.value} in {len(holding.coordinates)} coordinates"
        table.add_row(after, held, str(holding.token), f"{holding.errors.max(initial=0.0):.3g}")
    print_table(console, table)
    if len(holdings) > _MOST_ROWS:
        console.print(f"and {len(holdings) - _MOST_ROWS} more holdings; --json prints all")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _point(point: Sequence[object]) -> str:
    words = [f"{v:g}" if isinstance(v, float | int) else str(v) for v in point[:4]]
    return "(" + ", ".join(words) + (", ...)" if len(point) > 4 else ")")
