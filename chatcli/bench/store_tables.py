"""What the store's benchmark found, as tables; refuses to measure."""

from __future__ import annotations

from chatcli.bench.measure import Contest, Spread
from chatcli.bench.restore import SEGMENTS
from chatcli.bench.scale import Scale
from chatcli.bench.store import MOST_OVERHEAD, MOST_SLOWDOWN, StoreBench, targets
from chatcli.bench.talk import Talk
from chatcli.commands.results import Table
from chatcli.text import file_size


def tables(found: StoreBench) -> list[Table]:
    """One table each for size, restoring and scale, then where a target is missed."""
    return [_size(found.talk), _restores(found), _scale(found.scale), _verdict(found)]


def _size(talk: Talk) -> Table:
    final = talk.rows + talk.state_bytes
    rows = [
        _size_row("rows", talk.rows, talk.written - talk.state_bytes),
        _size_row("states", talk.state_bytes, talk.state_bytes),
        _size_row("chatcli, both", final, talk.written),
        _size_row("mlx-lm, saved every turn", talk.peer_final, talk.peer_written),
    ]
    title = f"{talk.turns} turns, {talk.tokens:,} tokens, {talk.segments} checkpoints"
    notes = [
        f"{talk.rows_files} rows files take {talk.rows_overhead:.3f} of what the rows take in memory "
        f"({file_size(talk.cache_rows)}; target: at most {MOST_OVERHEAD:.2f}).",
        f"{talk.states} states are kept, so that as many places can be gone back to; "
        "mlx-lm's file is the last place only.",
        f"Bytes written by mlx-lm / by chatcli: {talk.peer_written / talk.written:.2f}.",
    ]
    return Table(title, ("", "on disk", "written", "written / on disk"), rows, notes)


def _size_row(name: str, final: int, written: int) -> tuple[str, ...]:
    ratio = f"{written / final:.2f}" if final else "–"
    return name, file_size(final), file_size(written), ratio


def _restores(found: StoreBench) -> Table:
    columns = ("restore", "bytes", "files", "chatcli", "one file", "ratio", "from … to")
    rows = [
        row
        for one in found.restores
        for row in (
            (one.name, file_size(one.bytes), str(one.files), *_contest_cells(one.contest)),
            ("  in fresh memory", "", "", *_contest_cells(one.fresh)),
        )
    ]
    notes = [
        f"Medians of {found.restores[0].contest.rounds} rounds, in turn; one file: the same arrays "
        f"read by mx.load and evaluated. Target: at most {MOST_SLOWDOWN}.",
        "Layers×heads×dimensions: made-up caches in bfloat16, written as "
        f"{SEGMENTS} segments. Fresh memory: as in a process that has just begun.",
    ]
    notes += [f"{one.name}: the arrays differ!" for one in found.restores if not one.equal]
    return Table("Restore a whole path from disk", columns, rows, notes)


def _contest_cells(found: Contest) -> tuple[str, ...]:
    ratio = found.ratio
    times = (_ms(found.ours.median), _ms(found.peer.median))
    return (*times, f"{ratio.median:.2f}", f"{ratio.least:.2f} … {ratio.most:.2f}")


def _scale(found: Scale) -> Table:
    timings = {
        "chatcli list": found.list_all,
        "chatcli list, an empty folder": found.list_empty,
        "chatcli cache stats": found.stats,
        "the sessions' names by age": found.names,
        "a turn's match, found": found.match_found,
        "a turn's match, nothing but the system prompt": found.match_missed,
        "opening the store": found.opening,
        "the estimate before the first write": found.estimate,
    }
    rows = [(name, *_spread(spread)) for name, spread in timings.items()]
    title = f"{found.sessions:,} sessions, {found.segments:,} segments in {found.files:,} files"
    return Table(title, ("", "median", "least", "most"), rows)


def _verdict(found: StoreBench) -> Table:
    judged = targets(found)
    missed = [
        f"MISSED: {one.name} is {one.value:.3f}, target at most {one.most}." for one in judged if not one.met
    ]
    return Table("Targets", (), (), missed or [f"All {len(judged)} targets are met."])


def _spread(spread: Spread) -> tuple[str, ...]:
    return _ms(spread.median), _ms(spread.least), _ms(spread.most)


def _ms(seconds: float) -> str:
    milliseconds = seconds * 1000
    return f"{milliseconds:,.0f} ms" if milliseconds >= 9.95 else f"{milliseconds:.2g} ms"
