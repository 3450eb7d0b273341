"""What the query has read is taken from its checkpoint: the last batch that was committed, not the one at hand."""

from __future__ import annotations

from pathlib import Path

from lily_spark.cdc.gaps import committed


def _batch(checkpoint: Path, number: int, offsets: str, *, done: bool = True) -> None:
    for name, text in (("offsets", f"v1\n{{}}\n{offsets}"), ("commits", "v1\n{}")):
        if name == "offsets" or done:
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
            (checkpoint / name / str(number)).write_text(text)


def test_the_last_committed_batch_counts(tmp_path: Path) -> None:
    _batch(tmp_path, 9, '{"cdc.a.s.p.t":{"0":5}}')
    _batch(tmp_path, 10, '{"cdc.a.s.p.t":{"0":7,"1":3},"cdc.a.s.p.u":{"0":1}}')
    _batch(tmp_path, 11, '{"cdc.a.s.p.t":{"0":99}}', done=False)
    (tmp_path / "commits" / ".10.crc").write_text("")
    assert committed(tmp_path) == {("cdc.a.s.p.t", 0): 7, ("cdc.a.s.p.t", 1): 3, ("cdc.a.s.p.u", 0): 1}


def test_a_new_query_has_read_nothing(tmp_path: Path) -> None:
    assert committed(tmp_path) == {}
