"""The driver of the long campaign: it resumes, narrows, loses nothing, and says what is missing."""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
from dataclasses import replace

import pytest
from benchmarks._campaign_parts import PARTS, MissingPart, Part, faults, read_answer
from benchmarks._campaign_pool import run_chunk, run_chunks
from benchmarks._campaign_state import Chunk, Done, Shard, State, pending
from benchmarks._kill_writers import writers

from benchmarks import _campaign_state, campaign
from hardmax.testing import zoo

CASES = textwrap.dedent(
    '''
    import os
    import time


    def good(start, count, seed):
        return {"cases": count, "false": 0, "sum": sum(range(start, start + count))}


    def seventh(start, count, seed, every=7):
        """Every seventh case is false, and nobody says which."""
        return {"false": sum(n % every == every - 1 for n in range(start, start + count))}


    def told(start, count, seed):
        bad = [n for n in range(start, start + count) if n == 11]
        return {"cases": count, "wrong": len(bad), "failures": [(n, "eleven") for n in bad]}


    def falls(start, count, seed):
        if start <= 5 < start + count:
            raise IndexError("out of range")
        return {"cases": count}


    def dies(start, count, seed):
        if start <= 5 < start + count:
            os._exit(3)
        return {"cases": count}


    def short(start, count, seed):
        return {"cases": count - 1}


    def slow(start, count, seed):
        time.sleep(0.0 if start < 20 else 60.0)
        return {"cases": count}
    '''
)


@pytest.fixture
def part(tmp_path, monkeypatch):
    """Parts made of the functions above, which other processes can import, too."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "sample_cases.py").write_text(CASES)
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("sample_cases", None)

    def made(name, cases=30, chunk=10, arguments=()):
        return Part(name, "a sample", cases, chunk, f"sample_cases:{name}", arguments)

    return made


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    def ran(*parts, arguments=(), jobs=0):
        for one in parts:
            monkeypatch.setitem(PARTS, one.name, one)
        named = [word for one in parts for word in ("--part", one.name)]
        state = tmp_path / "out" / "state.jsonl"
        code = campaign.main([*named, *arguments, "--jobs", str(jobs), "--state", str(state)])
        return code, capsys.readouterr().out, State(state).lines

    return ran


# ---- the table ---------------------------------------------------------------------------------


def test_the_campaign_is_as_long_as_was_asked_for():
    assert PARTS["regions"].cases == 10**5
    assert PARTS["claims"].cases == PARTS["hostile"].cases == PARTS["programs"].cases == 10**4
    rounding = {name: part for name, part in PARTS.items() if name.startswith("rounding-")}
    assert {part.arguments[0] for part in rounding.values()} == {
        "float64",
        "float32",
        "float16",
        "bfloat16",
    }
    assert all(part.cases == 10**4 for part in rounding.values())
    assert PARTS["kills"].cases == 10**3 * len(writers())
    assert PARTS["zoo"].cases == len(zoo())


def test_every_part_has_a_line_in_the_list(capsys):
    assert campaign.main(["--list"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in PARTS)


def test_a_part_that_is_not_there_is_missing_loudly(run, part):
    absent = Part("absent", "nothing", 10, 5, "benchmarks.nowhere:run")
    code, said, lines = run(part("good"), absent)
    assert code == 1
    assert "absent is missing: No module named 'benchmarks.nowhere'" in said
    assert {line.part for line in lines} == {"good"}
    with pytest.raises(MissingPart, match="no attribute 'nothing'"):
        replace(absent, where="benchmarks.campaign:nothing").function()


# ---- results -----------------------------------------------------------------------------------


def test_nothing_false_is_exit_code_0(run, part):
    code, said, lines = run(part("good"))
    assert code == 0
    assert sum(line.counts["sum"] for line in lines) == sum(range(30))
    assert "0 false" in said
    assert f"{sum(range(30)):,} sum" in said


def test_what_is_false_is_narrowed_down_to_its_cases(run, part, capsys):
    code, said, lines = run(part("seventh"))
    assert code == 1
    assert "4 false" in said
    assert [n for line in lines for n, _ in line.failures] == [6, 13, 20, 27]
    assert "--replay seventh 0 20" in said
    assert campaign.main(["--replay", "seventh", "0", "20"]) == 1
    assert "case 20: {'false': 1}" in capsys.readouterr().out
    assert campaign.main(["--replay", "seventh", "0", "21"]) == 0
    assert campaign.main(["--replay", "eighth", "0", "21"]) == 2


def test_arguments_of_a_part_reach_it(run, part):
    _, _, lines = run(part("seventh", arguments=(10,)))
    assert [n for line in lines for n, _ in line.failures] == [9, 19, 29]


def test_a_part_that_says_which_case_failed_is_believed(run, part):
    code, said, _ = run(part("told"))
    assert code == 1
    assert "eleven" in said


def test_a_part_that_falls_over_has_crashed_at_one_case(run, part):
    code, said, lines = run(part("falls"))
    assert code == 1
    assert lines[0].failures == [(5, "IndexError: out of range")]
    assert "1 crashes" in said


def test_cases_that_were_left_out_without_a_word_are_noticed(run, part):
    assert run(part("short"))[0] == 1


def test_a_part_may_count_by_lists_and_tables():
    counts, failures = read_answer(
        {
            "cases": 9,
            "false": [(3, "three"), (5, "five")],
            "refused": {"too long": 2},
            "faults": [{"number": 7, "outcome": "wrong", "detail": "seven"}],
        }
    )
    assert counts == {"cases": 9, "false": 2, "refused: too long": 2}
    assert failures == [(3, "three"), (5, "five"), (7, "wrong, seven")]


def test_faults_are_those_that_must_be_0():
    assert faults({"cases": 3, "false": 0, "undecided": 5}) == {}
    assert faults({"wrong": 1, "lost": 2, "proved": 9}) == {"wrong": 1, "lost": 2}


# ---- parts of parts ----------------------------------------------------------------------------


def test_shards_share_the_cases(part):
    one = part("good", cases=45)
    shards = [pending(one, 0, 45, Shard(k, 3), ()) for k in (1, 2, 3)]
    cases = sorted(n for chunks in shards for c in chunks for n in range(c.start, c.stop))
    assert cases == list(range(45))
    assert all(shards)
    assert Shard.parse("2/3") == Shard(2, 3)
    for text in ("0/3", "4/3", "x"):
        with pytest.raises(ValueError, match="A shard is written 1/4"):
            Shard.parse(text)


def test_what_is_left_are_the_gaps(part):
    one = part("good")
    done = [Done(one.name, 0, "s", start, count, {}) for start, count in ((3, 4), (20, 5))]
    left = [(c.start, c.count) for c in pending(one, 0, 30, Shard(), done)]
    assert left == [(0, 3), (7, 3), (10, 10), (25, 5)]


def test_a_campaign_goes_on_where_it_was(run, part):
    one = part("good")
    run(one, arguments=["--count", "12"])
    code, _, lines = run(one)
    assert code == 0
    assert [(line.start, line.count) for line in lines] == [(0, 10), (10, 2), (12, 8), (20, 10)]
    assert run(one)[2] == lines  # nothing is left
    assert len(run(one, arguments=["--seed", "1"])[2]) == len(lines) + 3


def test_shards_are_judged_by_their_own_cases(run, part):
    one = part("good", cases=40)
    assert run(one, arguments=["--shard", "1/2"])[0] == 0
    code, _, lines = run(one, arguments=["--shard", "2/2"])
    assert code == 0
    assert sum(line.count for line in lines) == 40


def test_other_sources_start_over_unless_kept(run, part, monkeypatch):
    one = part("good")
    run(one)
    monkeypatch.setattr(campaign, "source_hash", lambda: "other")
    _, said, lines = run(one, arguments=["--keep"])
    assert "they are counted" in said
    assert len(lines) == 3
    _, said, lines = run(one)
    assert "The sources have changed: 3 chunks" in said
    assert [line.source for line in lines[3:]] == ["other"] * 3


def test_the_hash_is_that_of_the_sources(tmp_path, monkeypatch):
    before = _campaign_state.source_hash()
    assert before == _campaign_state.source_hash()
    (tmp_path / "new.py").write_text("")
    spec = type("Spec", (), {"submodule_search_locations": [str(tmp_path)]})
    monkeypatch.setattr(_campaign_state.importlib.util, "find_spec", lambda name: spec)
    empty = _campaign_state.source_hash()
    (tmp_path / "new.py").write_text("x = 1")
    assert len({before, empty, _campaign_state.source_hash()}) == 3


def test_a_line_that_was_cut_off_is_not_done(run, part, tmp_path):
    one = part("good")
    run(one)
    state = tmp_path / "out" / "state.jsonl"
    state.write_bytes(state.read_bytes()[:-20])
    code, _, lines = run(one)
    assert code == 0
    assert [line.start for line in lines] == [0, 10, 20]
    whole = [line for line in state.read_text().splitlines() if line.endswith("}")]
    assert [json.loads(line)["start"] for line in whole] == [0, 10, 20]


# ---- processes ---------------------------------------------------------------------------------


def test_a_process_that_dies_costs_one_case(part):
    found = list(run_chunks([Chunk(part("dies"), 0, 0, 10)], 1, "s"))
    assert sum(done.count for done in found) == 10
    assert [done.failures for done in found if done.failures] == [[(5, "the process died")]]
    assert sum(done.counts.get("crashes", 0) for done in found) == 1


def test_ctrl_c_leaves_a_state_that_resumes(run, part, monkeypatch):
    """The third chunk would take a minute; the signal comes while it is under way."""
    append = State.append

    def interrupt(self, done):
        append(self, done)
        if done.start == 10:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(State, "append", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it after &
    try:
        code, said, lines = run(part("slow"), jobs=1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == campaign.INTERRUPTED
    assert "the same command goes on" in said
    assert [line.start for line in lines] == [0, 10]
    left = pending(PARTS["slow"], 0, 30, Shard(), lines)
    assert [(chunk.start, chunk.count) for chunk in left] == [(20, 10)]


def test_time_is_counted(part):
    done = run_chunk(Chunk(part("good"), 0, 0, 10), "s")
    assert done.wall >= 0.0
    assert done.cpu >= 0.0
