"""Sequence programs from the command line: compiled, run on words, followed and drawn."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner, Result

import hardmax as hm
from hardmax.cli import _answers, main
from hardmax.cli._programs import read_alphabet, read_program, read_word
from hardmax.interop import read_safetensors
from hardmax.languages.programs import ProgramTarget

WORDS = {"alphabet": "abc", "length": 4}
ABC = ("--alphabet", "abc", "--length", "4")
REVERSE = ("--program", "reverse", *ABC)


def run(*arguments: object, given: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments], input=given)


def answer(*arguments: object, given: str | None = None) -> dict:
    result = run(*arguments, "--json", given=given)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of `reverse` that does not hold its program."""
    place = tmp_path_factory.mktemp("models") / "reverse.safetensors"
    with mock.patch.object(ProgramTarget, "encode", return_value=None):
        hm.save(hm.compile(hm.programs.reverse, **WORDS), place)
    return place


# ---- compile -----------------------------------------------------------------------------------


def test_compile_certify_and_save(tmp_path: Path) -> None:
    place = tmp_path / "t.safetensors"
    record = answer("compile", *REVERSE, "--certify", "-o", place)
    assert record["certificate"]["verdict"] == "PROVED"
    assert record["claim"]["domain"] == 'words over ["a", "b", "c"] of length 0 to 4'
    assert record["measurement"]["points"] == 1 + 3 + 9 + 27 + 81
    assert 0 < record["measured"] <= record["certificate"]["certified"] <= record["claim"]["error"]
    assert "tokens" in record["target"]
    assert record["saved"] == str(place)
    found = read_safetensors(place)
    assert found.legend == hm.compile(hm.programs.reverse, **WORDS).legend
    assert found.certificate["verdict"] == "PROVED"


def test_people_see_the_same_tables() -> None:
    result = run("compile", *REVERSE)
    assert (result.exit_code, result.stderr) == (0, "")
    model = hm.compile(hm.programs.reverse, **WORDS)
    assert result.stdout.startswith("program reverse -> Transformer, route program, softmax\n")
    assert any(line.split() == ["width", str(model.bill.width)] for line in lines(result))
    assert "room for decoding" in result.stdout
    assert 'claimed, on 121 words over ["a", "b", "c"] of length 0 to 4\n' in result.stdout


def lines(result: Result) -> list[str]:
    return result.stdout.splitlines()


def test_large_domains_are_sampled() -> None:
    program = ("--program", "copy", "--alphabet", "abcdefgh", "--length", "12")
    assert answer("compile", *program)["measurement"]["points"] == 1000
    assert answer("compile", *program, "--points", 20)["measurement"]["points"] == 20


# ---- which program -----------------------------------------------------------------------------

BRACKETS = tuple("()[]")
NAMED = [
    ("reverse", "abca", ["a", "c", "b", "a"]),
    (" sort ", "cab", ["a", "b", "c"]),
    ("length", "ab", [2, 2]),
    ("shift", "abc", [None, "a", "b"]),
    ("shift(-1, default='c')", "abc", ["b", "c", "c"]),
    ("count_of('a')", "aba", [2, 2, 2]),
    ("counter('a', modulus=2)", "aba", [1, 1, 0]),
    ("detect('ab')", "aab", [0, 0, 1]),
    ("sort_by({'a': 2, 'b': 1, 'c': 0})", "abc", ["c", "b", "a"]),
    ("table({'ab': 'ba'}, 'c')", "ab", ["b", "a"]),
    ("fsm('(ab)*')", "abab", [0, 1, 0, 1]),
    ("fsm({(0, 'a'): 1, (1, 'a'): 0}, 0, alphabet=['a'])", "aaa", [1, 0, 1]),
    ("dyck(['()','[]'])", "([])", [1] * 4),
    ("dyck(['()','[]'])", "([)]", [0] * 4),
    ("tokens.at(length - 1 - index)", "abc", ["c", "b", "a"]),
    ("n = length; n - index", "abc", [3, 2, 1]),
    ("back = length - 1 - index\nreverse = tokens.at(back)", "abc", ["c", "b", "a"]),
]


@pytest.mark.parametrize(("text", "word", "wanted"), NAMED)
def test_programs_by_name_and_by_text(text: str, word: str, wanted: list) -> None:
    alphabet = BRACKETS if "(" in word else tuple("abc")
    assert read_program(text, alphabet)(word) == wanted


BAD_PROGRAMS = [
    ("revers", "There is no program 'revers'. There are .*reverse"),
    ("sort()", "sort takes no arguments"),
    ("shift('a')", "The argument by of shift cannot be 'a'"),
    ("sort_by('a')", "The argument key of sort_by cannot be 'a'"),
    ("counter('a')", "missing a required argument: 'modulus'"),
    ("counter('a', 0)", "a whole modulus of at least 1"),
    ("shift(**{'by': 1})", "unexpected keyword"),
    ("shift(*[1])", "must be plain values"),
    ("dyck(['(('])", "No symbol may be a bracket twice"),
    ("dyck([1])", "cannot be made from these arguments"),
    ("table({1: 2})", "cannot be made from these arguments"),
    ("shift(__import__('os').getpid())", "must be plain values"),
    ("__import__('os').getpid()", "calls something that programs do not know"),
    ("tokens.__class__", "says something that programs do not know"),
    ("(", "could not be read"),
    ("", "The program is empty"),
    ("-" * 99_000 + "1", "nested too deeply"),
    ("-" * 100_000 + "1", "100,001 characters; at most 100,000"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD_PROGRAMS)
def test_programs_that_are_refused(text: str, sentence: str) -> None:
    result = run("compile", "--program", text, *ABC)
    assert result.exit_code == 2
    assert result.stderr.startswith("RequestError: ")
    assert result.stderr.count("\n") == 1
    with pytest.raises(hm.RequestError, match=sentence):
        read_program(text, tuple("abc"))


def test_nothing_typed_is_run(tmp_path: Path) -> None:
    place = tmp_path / "trap"
    for text in (f"shift(open({str(place)!r}, 'w'))", f"open({str(place)!r}, 'w')"):
        assert run("compile", "--program", text, *ABC).exit_code == 2
    assert not place.exists()


def test_alphabets_and_words() -> None:
    assert read_alphabet("abc") == ("a", "b", "c")
    assert read_alphabet("012") == ("0", "1", "2")
    assert read_alphabet("-1, 0,1") == (-1, 0, 1)
    assert read_alphabet("1,a") == ("1", "a")
    assert read_word("cab", ("a", "b", "c")) == ("c", "a", "b")
    assert read_word("012", (0, 1, 2)) == (0, 1, 2)
    assert read_word("-1,1", (-1, 0, 1)) == (-1, 1)
    assert read_word("go", ("go", "stop")) == ("go",)
    assert read_word("go, stop", ("go", "stop")) == ("go", "stop")
    assert read_word("a,b", ("a", ",", "b")) == ("a", ",", "b")
    assert read_word("", ("a",)) == ()


BAD_COMPILE = [
    ((), "Missing argument 'SOURCE'"),
    (("x*y", *REVERSE), "RequestError: SOURCE and --program"),
    (("--program", "sort"), "RequestError: .*--alphabet is missing"),
    (("--program", "sort", "--alphabet", "ab"), "RequestError: .*--length is missing"),
    (("--program", "sort", "--alphabet", "a,,b", "--length", "2"), "RequestError: .*empty symbol"),
    (("--program", "sort", "--alphabet", "aa", "--length", "2"), "DomainError: .*no symbol twice"),
    (("--program", "sort", "--alphabet", "", "--length", "2"), "DomainError: .*at least one"),
    (("--program", "sort", "--alphabet", "a", "--length", "many"), "not a valid integer"),
    ((*REVERSE, "--error", "0.1"), "RequestError: --error is for functions"),
    ((*REVERSE, "--on", "x=0:1"), "RequestError: --on is for functions"),
    ((*REVERSE, "--hard"), "RequestError: --hard is for functions"),
    ((*REVERSE, "--plot", "a.svg"), "RequestError: --plot is for functions"),
    ((*REVERSE, "-o", "missing/t.safetensors"), "FileError: There is no folder"),
    (("x*y", "--on", "[0,1]^2", "--alphabet", "ab"), "RequestError: --alphabet belongs"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD_COMPILE)
def test_what_compile_refuses(arguments: tuple[str, ...], sentence: str) -> None:
    result = run("compile", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert_says(result, sentence)


def assert_says(result: Result, sentence: str) -> None:
    assert re.search(sentence, result.stderr), result.stderr


# ---- run ---------------------------------------------------------------------------------------


def test_run_a_program_at_once() -> None:
    result = run("run", *REVERSE, "abca", "")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in lines(result)[2:]]
    assert rows[0][:3] == ["abca", "acba", "acba"]
    assert rows[1][:3] == ["(empty)"] * 3
    assert rows[0][-1] == "0.25"


def test_run_for_scripts() -> None:
    record = answer("run", "--program", "fraction_so_far('a')", *ABC, "aba")
    (row,) = record["words"]
    assert row["word"] == ["a", "b", "a"]
    assert row["answer"] == row["target"] == [1, "1/2", "2/3"]
    assert row["outputs"] == pytest.approx(np.array([[1], [1 / 2], [2 / 3]]))
    assert row["inside"] is True
    assert 0 <= row["difference"] <= record["claim"]["error"]
    assert record["trace"] is None


def test_whole_numbers_and_long_symbols() -> None:
    numbers = ("--program", "prefix_sum", "--alphabet", "-1,0,1", "--length", "4")
    assert answer("run", *numbers, "-1,1,-1")["words"][0]["answer"] == [-1, 0, -1]
    long = ("--program", "shift", "--alphabet", "go,stop", "--length", "4")
    result = run("run", *long, "go,stop,go")
    assert lines(result)[2].split()[:2] == ["go,stop,go", "nothing,go,stop"]


def test_words_from_a_file_and_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("abc\ncc\n")
    for place, given in ((tmp_path / "words.txt", None), ("-", "abc\ncc\n")):
        rows = answer("run", *REVERSE, "--input", place, given=given)["words"]
        assert [row["answer"] for row in rows] == [["c", "b", "a"], ["c", "c"]]


def test_a_file_without_its_program_answers_in_numbers(stored: Path) -> None:
    result = run("run", stored, "abca")
    assert result.exit_code == 0
    assert "does not hold the program" in result.stderr
    said = lines(result)[2].split()
    assert said[0] == "abca"
    assert np.rint([float(number) for number in said[1].split(",")]).tolist() == [0, 2, 1, 0]
    row = answer("run", stored, "abca")["words"][0]
    assert row["target"] is row["difference"] is None


def test_a_model_that_knows_its_program(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As files will be once programs can be stored."""
    from hardmax.cli import _run

    monkeypatch.setattr(_run, "open_model", lambda _: hm.compile(hm.programs.sort, **WORDS))
    assert answer("run", stored, "cab")["words"][0]["answer"] == ["a", "b", "c"]


def test_a_broken_claim_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = _answers.evaluate
    monkeypatch.setattr(_answers, "evaluate", lambda t, x: [one + 1 for one in real(t, x)])
    result = run("run", *REVERSE, "abc")
    assert result.exit_code == 1
    assert "A difference breaks the claim" in result.stderr


BAD_RUN = [
    ((), "Missing argument 'MODEL'"),
    (REVERSE, "RequestError: Say on which word: abc"),
    ((*REVERSE, "abz"), "RequestError: The symbol 'z' at place 2"),
    ((*REVERSE, "abcab"), "RequestError: .*at most 4 symbols"),
    ((*REVERSE, "abc", "--input", "-"), "RequestError: .*not both"),
    ((*REVERSE, "--input", "nowhere.txt"), "FileError: nowhere.txt was not found"),
    ((*REVERSE, "abc", "ab", "--trace"), "RequestError: .*one word, but 2 came"),
    ((*REVERSE, "", "--trace"), "RequestError: The empty word"),
    ((*REVERSE, "--tracing", "abc"), "No such option '--tracing'"),
    (("t.safetensors", "abc", "--length", "3"), "RequestError: --length belongs to --program"),
    (("--program", "copy", *ABC, "abc", "--plot", "a.svg"), "RequestError: .*this model has 0"),
    ((*REVERSE, "abc", "--plot", "a.gif"), "RequestError: A picture is"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD_RUN)
def test_what_run_refuses(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("run", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert_says(result, sentence)
    assert not list(tmp_path.iterdir())


def test_a_model_of_numbers_is_not_traced(tmp_path: Path) -> None:
    place = tmp_path / "t.safetensors"
    hm.save(hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}), place)
    result = run("run", place, "x=0.1", "y=0.2", "--trace")
    assert result.exit_code == 2
    assert_says(result, "RequestError: --trace follows a word")


# ---- trace and picture -------------------------------------------------------------------------


def test_trace_for_scripts(stored: Path) -> None:
    for arguments in (REVERSE, (stored,)):
        record = answer("run", *arguments, "abca", "--trace")["trace"]
        second = record["heads"][1]
        assert (second["sublayer"], second["head"]) == (1, 0)
        assert "tokens at" in second["step"]
        assert np.argmax(second["weights"], axis=1).tolist() == [3, 2, 1, 0]
        assert np.shape(record["streams"]) == (3, 4, len(record["coordinates"]))
        assert record["tokens"] == ["a", "b", "c", "a"]


def test_trace_for_people() -> None:
    result = run("run", *REVERSE, "abca", "--trace", "--raw")
    assert result.exit_code == 0
    said = lines(result)
    start = next(i for i, line in enumerate(said) if line.startswith("sublayer 1, head 0: answer"))
    table = [line.split() for line in said[start + 2 : start + 8]]
    assert table[0] == ["asks", "0:a", "1:b", "2:c", "3:a"]
    assert [row[1:] for row in table[2:]] == [
        ["·", "·", "·", "1"],
        ["·", "·", "1", "·"],
        ["·", "1", "·", "·"],
        ["1", "·", "·", "·"],
    ]
    assert any(line.split()[:2] == ["0:", "tokens"] for line in said)
    length = next(line for line in said if line.split()[1:2] == ["length"])
    assert len(set(length.split()[2:])) == 1  # every token knows it, in the same code


def test_a_compact_trace_in_words(stored: Path) -> None:
    """From a file as from a program; values, and codes in brackets."""
    told = [run("run", *arguments, "abca", "--trace") for arguments in (REVERSE, (stored,))]
    assert [one.exit_code for one in told] == [0, 0]
    assert len({one.stdout[one.stdout.index("embedding") :] for one in told}) == 1
    said = [line.split() for line in lines(told[0])]
    assert ["length", "4", "[3]", "4", "[3]", "4", "[3]", "4", "[3]"] in said
    assert ["attends", "to", "3", "2", "1", "0"] in said
    record = answer("run", stored, "abca", "--trace")["trace"]
    assert record["in_words"] in told[0].stdout
    (length,) = [one for one in record["said"] if one["name"] == "length"]
    assert (length["texts"], length["sublayer"]) == (["4 [3]"] * 4, 0)
    assert record["heads"][1]["shares"][0]["selected"] == [3]


def test_draw_the_attention(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    place = tmp_path / "attention.svg"
    result = run("run", *REVERSE, "abca", "--plot", place)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"drawn {place}" in result.stdout
    assert ">sublayer 1, head 0<" in place.read_text(encoding="utf-8")


def test_help_has_examples() -> None:
    assert "hardmax compile --program sort --alphabet abcde" in run("compile", "--help").stdout
    assert "hardmax run --program reverse --alphabet abcde" in run("run", "--help").stdout
