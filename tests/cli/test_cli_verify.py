"""`hardmax verify` and `hardmax compile --certify`: only what is proved afresh is success."""

from __future__ import annotations

import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hardmax as hm
from hardmax.cli import main
from hardmax.cli._progress import descent, standing_line
from hardmax.interop import read_safetensors, write_safetensors

ON = ("--on", "x=-1:1", "--on", "y=-1:1", "--points", "500")
COMPILE = ("compile", "x*y", *ON)
Checker = Callable[..., hm.Certificate]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def answer(*arguments: object, code: int = 0) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)


def found(construction: hm.Construction, **changes: Any) -> hm.Certificate:
    """What a checker could say of x*y."""
    said = {
        "verdict": hm.Verdict.PROVED,
        "certified": 0.00096,
        "measured": 0.000954,
        "worst": (1.0, -1.0),
        "method": "boxes",
        "boxes": 12345,
        "formats": {"float64": 0.00096, "float32": 0.00097, "float16": 0.1},
        "assumptions": ("exp is within 4 ULP", "the sun rises"),
        "seconds": 0.25,
        "version": hm.__version__,
    }
    return hm.Certificate.about(construction, **(said | changes))


def saying(**changes: Any) -> Checker:
    return lambda construction, **_: found(construction, **changes)


REFUTED = {"verdict": hm.Verdict.REFUTED, "measured": 0.5, "certified": math.inf}
UNDECIDED = {"verdict": hm.Verdict.UNDECIDED, "certified": 0.1, "advice": "Raise the budget."}
STOPPED = UNDECIDED | {"advice": "The check was interrupted; let it run."}


@pytest.fixture(scope="module")
def product() -> hm.Construction:
    return hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-3)


@pytest.fixture
def model(product: hm.Construction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file without a certificate, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    hm.save(product, "product.safetensors")
    return tmp_path / "product.safetensors"


@pytest.fixture
def certified(product: hm.Construction, model: Path) -> Path:
    hm.save(product, model, found(product))
    return model


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the checker say something."""

    def set_checker(**changes: Any) -> None:
        monkeypatch.setattr("hardmax.checker.certify", saying(**changes))

    return set_checker


# ---------------------------------------------------------------- verify


def test_a_proof_for_people(model: Path, says: Callable[..., None]) -> None:
    says()
    before = model.read_bytes()
    result = run("verify", model)
    assert (result.exit_code, result.stderr) == (0, "")
    for part in (
        "f(x, y) = x*y -> Transformer, route direct, softmax",
        "claimed: error <= 0.000973909 on [-1,1]^2",
        "0.000954 measured <= 0.00096 certified <= 0.000973909 claimed: proved",
        "float64, float32\n",
        "float16 (0.1)\n",
        "(1, -1)",
        "   12,345 boxes, 0.25 s\n",
        "exp is within 4 ULP",
        "the sun rises",
        "no certificate was stored with it",
    ):
        assert part in result.stdout
    assert model.read_bytes() == before


def test_a_proof_for_programs(certified: Path, says: Callable[..., None]) -> None:
    says(seconds=1.0)
    record = answer("verify", certified)
    assert record["verdict"] == record["certificate"]["verdict"] == "PROVED"
    assert record["certificate"]["holds_in"] == ["float64", "float32"]
    assert record["certificate"]["fingerprint"] == record["fingerprint"]
    assert record["stored"]["seconds"] == 0.25
    assert (record["altered"], record["contradictions"], record["holds"]) == ([], [], True)
    assert (record["written"], record["certificate_file"], record["plot"]) == (None, None, None)
    assert record["claim"]["domain"] == "[-1,1]^2"


def test_write_stores_what_was_decided(model: Path, says: Callable[..., None]) -> None:
    says()
    result = run("verify", model, "--write")
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"stored in {model}" in result.stdout
    assert hm.load_certificate(model) == found(hm.load(model))
    again = run("verify", model)
    assert again.exit_code == 0
    assert "the stored certificate is about this very model: proved" in again.stdout
    says(**UNDECIDED)
    assert run("verify", model, "--write").exit_code == 1
    assert hm.load_certificate(model).verdict is hm.Verdict.PROVED
    says(**REFUTED)
    assert run("verify", model, "--write").exit_code == 1
    assert hm.load_certificate(model).verdict is hm.Verdict.REFUTED


def test_a_failed_write_leaves_the_file(
    model: Path, says: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    says()
    before = model.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("No space left")

    monkeypatch.setattr(os, "replace", fail)
    result = run("verify", model, "--write")
    assert result.exit_code == 2
    assert re.match("FileError: .*could not be written", result.stderr)
    assert model.read_bytes() == before
    assert os.listdir(model.parent) == [model.name]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (REFUTED, "The claim is false: the counterexample breaks it."),
        (UNDECIDED, "The enclosures are too wide to decide. Undecided is not success. Raise the"),
    ],
)
def test_undecided_and_refuted_are_no_success(
    certified: Path, says: Callable[..., None], said: dict[str, Any], sentence: str
) -> None:
    says(**said)
    result = run("verify", certified)
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert "claimed: proved" not in result.stdout
    assert ("says proved by" in result.stdout) is (said is UNDECIDED)  # refuted: on stderr
    record = answer("verify", certified, code=1)
    assert (record["verdict"], record["holds"]) == (said["verdict"].name, False)


def test_a_counterexample_is_shown(model: Path, says: Callable[..., None]) -> None:
    says(**REFUTED)
    result = run("verify", model)
    assert re.search(r"counterexample +\(1, -1\)", result.stdout)
    assert "claimed < 0.5 measured <= inf certified: refuted at (1, -1)" in result.stdout
    assert answer("verify", model, code=1)["certificate"]["certified"] == "infinity"


def test_the_certificate_as_json(model: Path, says: Callable[..., None]) -> None:
    says()
    result = run("verify", model, "--certificate", "c.json")
    assert result.exit_code == 0
    assert "written to c.json" in result.stdout
    record = json.loads(Path("c.json").read_text())
    assert hm.Certificate.from_dict(record) == found(hm.load(model))


# ---------------------------------------------------------------- altered files


def forged(path: Path, construction: hm.Construction, **changes: Any) -> None:
    """Replace the model but keep its certificate, with a true digest: the library's own writer."""
    stored = read_safetensors(path).certificate
    assert stored is not None
    write_safetensors(construction, path, certificate=stored | changes)


def tampered(model: hm.Construction) -> dict[str, hm.Construction]:
    claim, transformer = model.claim, model.transformer
    bias = transformer.readout.bias + 1e-9
    wider = hm.Box([-1, -1], [1, 1 + 2**-52])
    generous = (*claim.ledger, replace(claim.ledger[0], amount=1.0))
    return {
        "weights": replace(
            model,
            transformer=replace(transformer, readout=replace(transformer.readout, bias=bias)),
        ),
        "target": replace(
            model, claim=hm.Claim(hm.Function.parse("x*y + 1e-9"), claim.domain, claim.ledger)
        ),
        "domain": replace(model, claim=hm.Claim(claim.target, wider, claim.ledger)),
        "claim": replace(model, claim=hm.Claim(claim.target, claim.domain, generous)),
    }


@pytest.mark.parametrize("part", ["weights", "target", "domain", "claim"])
def test_a_careful_forgery_is_named_though_it_is_proved(
    product: hm.Construction, certified: Path, says: Callable[..., None], part: str
) -> None:
    says()
    forged(certified, tampered(product)[part])
    before = certified.read_bytes()
    result = run("verify", certified)
    assert result.exit_code == 1
    sentence = f"Altered since it was certified: {part}; the verdict is about the file as it is now"
    assert result.stderr == f"{sentence}.\n"
    assert "proved" in result.stdout
    assert "this very model" not in result.stdout
    record = answer("verify", certified, code=1)
    assert (record["verdict"], record["altered"], record["holds"]) == ("PROVED", [part], False)
    assert certified.read_bytes() == before


def test_all_alterations_are_named_at_once(
    product: hm.Construction, certified: Path, says: Callable[..., None]
) -> None:
    says()
    other = tampered(product)
    claim = hm.Claim(other["target"].claim.target, product.claim.domain, product.claim.ledger)
    forged(certified, replace(other["weights"], claim=claim))
    assert "certified: weights and target;" in run("verify", certified).stderr


def test_a_careless_forgery_is_refused(certified: Path) -> None:
    data = certified.read_bytes()
    certified.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    result = run("verify", certified)
    assert result.exit_code == 2
    assert re.match("FileError: .*was altered after it was written", result.stderr)


@pytest.mark.parametrize(
    ("stored", "said", "sentence"),
    [
        (
            {"certified": 0.0009, "measured": 0.0},
            {},
            "it certifies 0.0009, but an error of 0.000954",
        ),
        (
            {"measured": 0.00096},
            {"certified": 0.000955},
            "it measured 0.00096, but no error exceeds",
        ),
        (
            {"verdict": "REFUTED", "measured": 0.5, "certified": "infinity"},
            {},
            "it says refuted, but the claim is proved",
        ),
        ({}, REFUTED, "it says proved, but the claim is refuted"),
    ],
)
def test_a_false_certificate_is_told(
    product: hm.Construction,
    certified: Path,
    says: Callable[..., None],
    stored: dict[str, Any],
    said: dict[str, Any],
    sentence: str,
) -> None:
    says(**said)
    forged(certified, product, **stored)
    result = run("verify", certified)
    assert result.exit_code == 1
    assert f"The stored certificate is false: {sentence}" in result.stderr
    assert any(sentence in line for line in answer("verify", certified, code=1)["contradictions"])


def test_an_undecided_certificate_contradicts_nothing(
    product: hm.Construction, model: Path, says: Callable[..., None]
) -> None:
    says()
    hm.save(product, model, found(product, **UNDECIDED))
    result = run("verify", model)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "about this very model: undecided" in result.stdout


# ---------------------------------------------------------------- bad input


def opaque(path: Path) -> None:
    function = hm.CallableFunction(lambda x: x / 2, ["x"], lipschitz=0.5)
    hm.save(hm.compile(function, on={"x": (0, 1)}, error=0.1), path)


def without_claim(path: Path) -> None:
    """As another program could write it: with a true digest."""
    import hashlib

    import safetensors.numpy

    def canonical(value: Any) -> str:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))

    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    body = json.loads(header["__metadata__"]["hardmax"])
    del body["claim"], body["sha256"]
    tensors = safetensors.numpy.load(data)
    digest = hashlib.sha256(canonical(body).encode() + b"\n")
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(canonical([name, array.dtype.str, list(array.shape)]).encode() + b"\n")
        digest.update(array.tobytes())
    text = canonical(body | {"sha256": digest.hexdigest()})
    path.write_bytes(safetensors.numpy.save(tensors, metadata={"hardmax": text}))


def with_nonsense(path: Path) -> None:
    write_safetensors(hm.load(path), path, certificate={"verdict": "PROVED"})


def network(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"0.weight": np.ones((1, 2)), "0.bias": np.zeros(1)}, path)


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["", "json"])
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (opaque, "FileError: .*opaque target: a Python function, which no file can hold"),
        (without_claim, "FileError: .*holds no claim: nothing was promised"),
        (with_nonsense, "FileError: .*has a certificate that cannot be read"),
        (network, "FileError: .*is a safetensors file but not a hardmax model"),
        (os.remove, "FileError: .*was not found"),
    ],
)
def test_files_that_cannot_be_verified(
    model: Path,
    says: Callable[..., None],
    spoil: Callable[[Path], None],
    sentence: str,
    json: tuple[str, ...],
) -> None:
    says()
    spoil(model)
    result = run("verify", model, *json)
    assert re.match(sentence, result.stderr)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


REQUESTS = [
    (("--budget", "0"), "RequestError: The budget leaves no time"),
    (("--budget", "0 boxes"), "RequestError: The budget leaves no time"),
    (("--budget", "soon"), "RequestError: The budget 'soon' could not be read"),
    (("--tolerance", "0"), "RequestError: The tolerance must be a number > 0"),
    (("--tolerance", "tight"), "RequestError: The tolerance must be .*not 'tight'"),
    (("--tolerance", "nan"), "RequestError: The tolerance must be"),
    (("--plot", "error.gif"), "RequestError: A picture is an .svg, a .png or a .pdf"),
    (("--plot", "no/error.svg"), "FileError: There is no folder"),
    (("--certificate", "no/c.json"), "FileError: There is no folder"),
    (("--certificate", "product.safetensors"), "FileError: .*is the model itself"),
    (("--certificate", "a.svg", "--plot", "./a.svg"), "RequestError: .*name one file"),
]


@pytest.mark.parametrize(("options", "sentence"), REQUESTS)
def test_requests_that_make_no_sense(
    model: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], sentence: str
) -> None:
    if "--plot" in options:
        pytest.importorskip("matplotlib")
    monkeypatch.setattr("hardmax.checker.certify", lambda *_, **__: pytest.fail("worked in vain"))
    result = run("verify", model, *options)
    assert re.match(sentence, result.stderr), result.stderr
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert os.listdir(model.parent) == [model.name]


def test_an_archive_is_no_model(tmp_path: Path) -> None:
    result = run("verify", tmp_path / "net.npz")
    assert result.exit_code == 2
    assert "is no compiled model. If it holds a network, compile it first" in result.stderr


# ---------------------------------------------------------------- the checker itself


@pytest.fixture
def square(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> hm.Construction:
    """x**2, certified by the checker itself, in square.safetensors."""
    monkeypatch.chdir(tmp_path)
    model = hm.compile("x**2", on={"x": (-1, 1)}, error=1e-2)
    hm.save(model, "square.safetensors", hm.certify(model))
    return model


def test_what_is_compiled_is_proved_and_proved_again(square: hm.Construction) -> None:
    source = ("compile", "x**2", "--on", "x=-1:1", "--error", "1e-2", "--points", "500")
    made = answer(*source, "--certify", "-o", "again.safetensors")
    assert made["certificate"]["verdict"] == "PROVED"
    assert made["certificate"]["version"] == hm.__version__
    assert hm.load_certificate("again.safetensors").altered(square) == ()
    for place in ("square.safetensors", "again.safetensors"):
        record = answer("verify", place, "--tolerance", "0.01")
        now = record["certificate"]
        assert 0 < now["measured"] <= now["certified"] <= now["claimed"] == square.claim.error
        assert now["certified"] <= 1.01 * now["measured"] + now["formats"]["float64"] * 1e-9
        assert record["altered"] == record["contradictions"] == []
        assert "float64" in now["holds_in"]
    seen = hm.measure(square, 5000).error
    assert seen <= now["certified"]


@pytest.mark.parametrize("part", ["weights", "target", "domain", "claim"])
def test_a_forgery_that_breaks_the_claim_is_refuted(square: hm.Construction, part: str) -> None:
    """Each by a little more than the margin."""
    claim, transformer = square.claim, square.transformer
    bias = transformer.readout.bias + 1e-3
    wide, half = hm.Box([-1], [1.5]), [replace(s, amount=s.amount / 2) for s in claim.ledger]
    other = {
        "weights": replace(
            square,
            transformer=replace(transformer, readout=replace(transformer.readout, bias=bias)),
        ),
        "target": replace(
            square, claim=hm.Claim(hm.Function.parse("x**2 + 0.001"), claim.domain, claim.ledger)
        ),
        "domain": replace(square, claim=hm.Claim(claim.target, wide, claim.ledger)),
        "claim": replace(square, claim=hm.Claim(claim.target, claim.domain, half)),
    }[part]
    forged(Path("square.safetensors"), other)
    record = answer("verify", "square.safetensors", code=1)
    assert (record["altered"], record["verdict"]) == ([part], "REFUTED")
    worst = record["certificate"]["worst"]
    assert abs(other(worst) - other.claim.target(worst)).max() > other.claim.error
    assert run("verify", "square.safetensors").stderr.startswith("Altered since it was certified")


def test_a_signal_leaves_the_best_verdict_and_the_file(square: hm.Construction) -> None:
    """A true SIGINT, sent while the checker is at work."""
    before = Path("square.safetensors").read_bytes()
    program = (
        "import os, signal, hardmax as hm\n"
        "from hardmax.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "true = hm.checker.certify\n"
        "stop = lambda standing: os.kill(os.getpid(), signal.SIGINT)\n"
        "hm.checker.certify = lambda c, **options: true(c, **options | {'progress': stop})\n"
        "main(['verify', 'square.safetensors', '--write'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert "certified: undecided" in done.stdout
    assert "says proved by" in done.stdout
    assert "The check was interrupted" in done.stderr
    assert "Traceback" not in done.stderr
    assert Path("square.safetensors").read_bytes() == before


def test_jobs_prove_the_same(square: hm.Construction) -> None:
    alone, together = (answer("verify", "square.safetensors", "--jobs", n) for n in (1, 2))
    for record in (alone, together):
        del record["certificate"]["seconds"]
    assert alone["certificate"] == together["certificate"]


# ---------------------------------------------------------------- waiting, and not waiting


def test_an_interruption_shows_the_best_so_far(certified: Path, says: Callable[..., None]) -> None:
    says(**STOPPED)
    before = certified.read_bytes()
    result = run("verify", certified, "--write")
    assert result.exit_code == 130
    assert "undecided" in result.stdout
    assert "The check was interrupted; let it run." in result.stderr
    assert certified.read_bytes() == before


def test_an_interruption_elsewhere_writes_nothing(
    certified: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hardmax.checker.certify", interrupt)
    before = certified.read_bytes()
    result = run("verify", certified, "--write")
    assert (result.exit_code, result.stderr) == (130, "Interrupted; nothing was written.\n")
    assert certified.read_bytes() == before


def test_jobs_are_processes_that_leave_interruptions_alone(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def checker(
        construction: hm.Construction, *, executor: Executor | None, **_: Any
    ) -> hm.Certificate:
        if executor is None:
            seen.append(None)
        else:
            seen.append(executor.submit(os.getpid).result() != os.getpid())
            seen.append(executor.submit(signal.getsignal, signal.SIGINT).result())
        return found(construction)

    monkeypatch.setattr("hardmax.checker.certify", checker)
    assert run("verify", model).exit_code == 0
    assert run("verify", model, "--jobs", 2).exit_code == 0
    assert seen == [None, True, signal.SIG_IGN]
    assert run("verify", model, "--jobs", 0).exit_code == 2


def test_options_reach_the_checker(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def checker(construction: hm.Construction, **options: Any) -> hm.Certificate:
        asked.append((options["tolerance"], options["budget"], options["progress"]))
        return found(construction)

    monkeypatch.setattr("hardmax.checker.certify", checker)
    run("verify", model, "--tolerance", "0.01", "--budget", "2 min")
    run("verify", model, "--budget", "1e6 boxes")
    assert asked == [  # nobody watches a pipe: no progress
        (0.01, hm.Budget(120.0), None),
        (None, hm.Budget(math.inf, 1e6), None),
    ]


def standing(certified: float, measured: float = 1.0, boxes: int = 12345) -> hm.Standing:
    return hm.Standing(certified, measured, 2.0, boxes)


def test_the_bar_is_a_logarithm() -> None:
    assert descent(16.0, standing(16.0)) == 0.0
    assert descent(16.0, standing(4.0)) == 0.5
    assert descent(16.0, standing(1.0)) == descent(16.0, standing(0.5)) == 1.0
    assert descent(32.0, standing(8.0, measured=0.0)) == 0.5  # down to the claim
    assert descent(16.0, standing(math.inf)) == descent(16.0, standing(20.0)) == 0.0
    line = "certified 1.31e-03 -> measured 9.55e-04 (claimed 2.00e+00) 12,345 boxes"
    assert standing_line(standing(1.31e-3, 9.55e-4)) == line


def test_people_at_a_terminal_see_the_bound_come_down(certified: Path) -> None:
    program = (
        "import hardmax as hm, time\n"
        "from hardmax.cli import main\n"
        "def checker(construction, *, progress, **_):\n"
        "    for bound in (float('inf'), 1.0, 1.31e-3, 9.6e-4):\n"
        "        progress(hm.Standing(bound, 9.55e-4, construction.claim.error, 12345))\n"
        "        time.sleep(0.3)\n"
        "    return hm.load_certificate('product.safetensors')\n"
        "hm.checker.certify = checker\n"
        "main(['verify', 'product.safetensors'])\n"
    )
    outer, inner = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=inner,
        env=os.environ | {"COLUMNS": "120", "TERM": "xterm"},
    ) as process:
        os.close(inner)
        shown = _everything(outer)
        assert process.stdout is not None
        assert b"claimed: proved" in process.stdout.read()
    assert process.returncode == 0
    assert b"certified 1.31e-03 -> measured 9.55e-04 (claimed 9.74e-04) 12,345 boxes" in shown
    assert b"certified 9.60e-04 ->" in shown
    assert b"certified inf ->" in shown


def _everything(terminal: int) -> bytes:
    shown = b""
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # Linux says so when the other side is closed
            more = b""
        if not more:
            os.close(terminal)
            return shown
        shown += more


# ---------------------------------------------------------------- compile --certify


def test_compile_stores_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: Callable[..., None]
) -> None:
    monkeypatch.chdir(tmp_path)
    says()
    result = run(*COMPILE, "--certify", "-o", "t.safetensors")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "0.000954 measured <= 0.00096 certified <= 0.000973909 claimed: proved" in result.stdout
    assert "saved t.safetensors" in result.stdout
    assert hm.load_certificate("t.safetensors") == found(hm.load("t.safetensors"))
    record = answer(*COMPILE, "--certify", "-o", "t.safetensors")
    assert record["certificate"]["verdict"] == "PROVED"
    assert record["saved"] == "t.safetensors"
    assert run("verify", "t.safetensors").exit_code == 0


def test_without_certify_there_is_no_certificate(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("hardmax.checker.certify", lambda *_, **__: pytest.fail("not asked"))
    record = answer(*COMPILE, "-o", tmp_path / "t.safetensors")
    assert record["certificate"] is None
    assert hm.load_certificate(tmp_path / "t.safetensors") is None


@pytest.mark.parametrize("json", [(), ("--json",)], ids=["", "json"])
@pytest.mark.parametrize(
    ("said", "code", "saved"), [(REFUTED, 1, False), (UNDECIDED, 1, True), (STOPPED, 130, False)]
)
def test_compile_and_a_claim_that_is_not_proved(
    tmp_path: Path,
    says: Callable[..., None],
    said: dict[str, Any],
    code: int,
    saved: bool,
    json: tuple[str, ...],
) -> None:
    says(**said)
    place = tmp_path / "t.safetensors"
    result = run(*COMPILE, "--certify", "-o", place, *json)
    assert result.exit_code == code
    kept = f"{place} was saved with this certificate" if saved else "nothing was saved"
    assert result.stderr.endswith(f"Not proved: {kept}.\n")
    assert said["verdict"].value in result.stderr
    assert place.exists() is saved
    if saved:
        assert hm.load_certificate(place).verdict is hm.Verdict.UNDECIDED
    else:
        assert "saved t" not in result.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--budget", "30s"), "--budget belongs to --certify"),
        (("--tolerance", "0.1"), "--tolerance belongs to --certify"),
        (("--jobs", "2"), "--jobs belongs to --certify"),
        (("--certify", "--budget", "0"), "The budget leaves no time"),
        (("--certify", "--tolerance", "-1"), "The tolerance must be"),
    ],
)
def test_requests_of_compile_that_make_no_sense(
    tmp_path: Path, options: tuple[str, ...], sentence: str
) -> None:
    result = run(*COMPILE, *options, "-o", tmp_path / "t.safetensors")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"RequestError: {sentence}")
    assert os.listdir(tmp_path) == []


# ---------------------------------------------------------------- show, and pictures


def test_show_mentions_the_certificate_and_believes_nothing(
    product: hm.Construction, certified: Path
) -> None:
    text = run("show", certified).stdout
    assert f"certificate {found(product)}\n" in text
    assert f"stored, not re-established: run hardmax verify {certified}" in text
    assert answer("show", certified)["certificate"]["verdict"] == "PROVED"
    forged(certified, tampered(product)["weights"])
    text = run("show", certified).stdout
    assert "altered since it was certified: weights, not re-established" in text
    assert answer("show", certified)["altered"] == ["weights"]


def test_show_without_a_certificate(model: Path) -> None:
    assert f"no certificate; hardmax verify {model} makes one" in run("show", model).stdout
    assert answer("show", model)["certificate"] is None


def test_pictures_of_both_commands(model: Path, says: Callable[..., None]) -> None:
    pytest.importorskip("matplotlib")
    says()
    assert answer("verify", model, "--plot", "verified.svg")["plot"] == "verified.svg"
    assert "drawn compiled.svg" in run(*COMPILE, "--certify", "--plot", "compiled.svg").stdout
    assert Path("verified.svg").read_bytes() == Path("compiled.svg").read_bytes()
    assert "certified ±0.00096" in Path("verified.svg").read_text()
    assert run(*COMPILE, "--plot", "bare.svg").exit_code == 0
    bare = Path("bare.svg").read_text()
    assert "certified" not in bare
    assert "claimed ±0.0009739" in bare


def test_what_cannot_be_drawn_is_not_proved_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("hardmax.checker.certify", lambda *_, **__: pytest.fail("worked in vain"))
    wide = hm.ReluNetwork([np.ones((1, 10))], [np.zeros(1)])
    hm.save_network(wide, tmp_path / "wide.npz")
    place = tmp_path / "wide.safetensors"
    hm.save(hm.compile(wide, on="[-1,1]^10", error=1e-3), place)
    plot = ("--plot", tmp_path / "error.svg")
    for command in (
        ("verify", place, *plot),
        ("compile", tmp_path / "wide.npz", "--on", "[-1,1]^10", "--certify", *plot),
    ):
        result = run(*command)
        assert result.exit_code == 2
        assert result.stderr.startswith("RequestError: The error can be drawn over 1 to 9 variabl")


def test_help_comes_with_an_example() -> None:
    result = run("verify", "--help")
    assert result.exit_code == 0
    assert "hardmax verify " in result.stdout.split("Examples")[1]
    assert "hardmax verify " in run("--help").stdout
