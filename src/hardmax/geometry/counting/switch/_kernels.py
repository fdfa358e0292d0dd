"""Splitting many cells by one layer, compiled: a small depth-first search over the groups of each.

To be read from `split_cells`, at the end, upwards; then `_rival_kernels` (who may win in a cell)
and `_clip_kernels` (the part of a cell that one of them wins).
"""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import copy_row, copy_rows, inline, lent, resumable_entry
from hardmax.geometry.counting.switch._arrays import (
    CLOSE,
    DONE,
    EMPTY,
    FULL,
    NO_ROOM,
    OUT,
    UNCHANGED,
    Children,
    ClipScratch,
    FloatCell,
    LayerTables,
    Parents,
    Pile,
    Rivals,
    Task,
)
from hardmax.geometry.counting.switch._clip_kernels import clip
from hardmax.geometry.counting.switch._rival_kernels import find_rivals, sift
from hardmax.numerics import TINY, UNIT

# ---- children ------------------------------------------------------------------------------------


@inline
def write_state(tables: LayerTables, rivals: Rivals, reach: np.ndarray, forms: np.ndarray) -> None:
    """The next state: base rows and what the winners add. Every sum rounds once more.

    Two units pay for that and for the rounding of the size; products in it may underflow.
    """
    base, payload, target, made = tables.base, tables.payload, tables.target, rivals.made
    d = forms.shape[1] - 2
    for i in range(len(base)):
        for c in range(d + 2):
            forms[i, c] = made[base[i], c] if base[i] >= 0 else 0.0
    for g in range(len(rivals.winners)):
        for t in range(payload.shape[1]):
            if target[g, t] < 0:
                continue
            row, at = payload[rivals.winners[g], t], target[g, t]
            size = 0.0
            for c in range(d + 1):
                forms[at, c] += made[row, c]
                size += abs(forms[at, c]) * (reach[c] if c < d else 1.0)
            forms[at, d + 1] += made[row, d + 1] + 2 * UNIT * size + TINY


@inline
def _write_facets(cell: FloatCell, children: Children) -> int:
    """The facets that have vertices, numbered anew; how many."""
    v, f = children.fill[1], children.fill[2]
    nv, words = len(cell.stray), cell.bits.shape[1]
    for i in range(nv):
        for w in range(words):
            children.bits[v + i, w] = np.uint64(0)
    facets = 0
    for place in range(64 * words):
        word, shift = place >> 6, np.uint64(place & 63)
        seen = False
        for i in range(nv):
            if (cell.bits[i, word] >> shift) & np.uint64(1):
                seen = True
                children.bits[v + i, facets >> 6] |= np.uint64(1) << np.uint64(facets & 63)
        if seen:
            copy_row(children.labels[f + facets], cell.labels[place])
            facets += 1
    return facets


@inline
def _emit(
    tables: LayerTables,
    rivals: Rivals,
    cell: FloatCell,
    parents: Parents,
    job: int,
    children: Children,
) -> bool:
    """Write a child, or a part that is open: its parent, who won, its polytope, its state."""
    fill, winners, nv = children.fill, rivals.winners, len(cell.stray)
    k, v, f = fill[0], fill[1], fill[2]
    if k == len(children.parent) or v + nv > len(children.stray):
        return False
    if f + 64 * cell.bits.shape[1] > len(children.labels):
        return False
    children.parent[k] = job
    is_open = False
    for g in range(len(winners)):
        children.won[k, g] = winners[g] - tables.starts[g] if winners[g] >= 0 else -1
        is_open = is_open or winners[g] < 0
    copy_rows(children.points[v:], cell.points)
    copy_row(children.stray[v:], cell.stray)
    facets = _write_facets(cell, children)
    if not is_open:  # then it is kept
        write_state(tables, rivals, parents.reach, children.forms[k])
    fill[0], fill[1], fill[2] = k + 1, v + nv, f + facets
    children.vstart[k + 1], children.fstart[k + 1] = fill[1], fill[2]
    return True


# ---- one cell ------------------------------------------------------------------------------------


@inline
def _cell_of(arrays: Pile | ClipScratch, place: int, count: int) -> FloatCell:
    """One cell of several, of which only so many vertices are written."""
    return FloatCell(
        arrays.points[place, :count],
        arrays.stray[place, :count],
        arrays.bits[place, :count],
        arrays.labels[place],
    )


@inline
def _copy_cell(target: Pile | ClipScratch, place: int, cell: FloatCell) -> None:
    copy_rows(target.points[place], cell.points)
    copy_row(target.stray[place], cell.stray)
    copy_rows(target.bits[place], cell.bits)
    copy_rows(target.labels[place], cell.labels)


@inline
def _won_part(
    tables: LayerTables,
    rivals: Rivals,
    cut: ClipScratch,
    task: Task,
    size: int,
    i: int,
    group: int,
    count: int,
) -> tuple[int, int]:
    """The part of cell 0 of `cut` that piece i of the pool wins: where it is, its vertices.

    Or that it is too close to call, or does not fit.
    """
    made, pool, start = rivals.made, rivals.pool, tables.starts[group]
    p, now, other = tables.score[pool[i]], 0, 1
    vertices = cut.stray.shape[1]
    for j in range(size):
        if j == i:
            continue
        q = tables.score[pool[j]]
        for c in range(len(cut.form)):
            cut.form[c] = made[p, c] - made[q, c]
        cut.label[0], cut.label[1] = task.layer, group
        cut.label[2], cut.label[3] = pool[i] - start, pool[j] - start
        here, there = _cell_of(cut, now, count), _cell_of(cut, other, vertices)
        level, steep = rivals.bulk[p] + rivals.bulk[q], rivals.slope[p] + rivals.slope[q]
        code = clip(here, there, cut, level, steep, task.fast)
        if code in (CLOSE, NO_ROOM):
            return now, code
        if code == EMPTY:
            return now, 0
        if code != UNCHANGED:
            count = code
            now, other = other, 3 - other if now == 0 else now
    return now, count


@inline
def _divide(
    tables: LayerTables,
    rivals: Rivals,
    cut: ClipScratch,
    task: Task,
    pile: Pile,
    top: int,
    size: int,
) -> int:
    """Push the part of the cell at `top` that each piece of the pool wins; the new top."""
    count, level = pile.vertices[top], pile.level[top]
    group = rivals.open[level]
    _copy_cell(cut, 0, _cell_of(pile, top, count))
    copy_row(cut.won, pile.won[top])
    free = top
    for i in range(size):
        at, vertices = _won_part(tables, rivals, cut, task, size, i, group, count)
        if vertices == CLOSE:  # the cell as it was: something may have been pushed over it
            _copy_cell(pile, top, _cell_of(cut, 0, count))
            pile.vertices[top], pile.level[top] = count, level
            return CLOSE
        if vertices == NO_ROOM:
            return NO_ROOM
        if vertices == 0:
            continue
        if free == len(pile.vertices):
            return NO_ROOM
        pile.vertices[free], pile.level[free] = vertices, level + 1
        _copy_cell(pile, free, _cell_of(cut, at, vertices))
        copy_row(pile.won[free], cut.won)
        pile.won[free, level] = rivals.pool[i]
        free += 1
    return free


@inline
def _decide_groups(
    tables: LayerTables, rivals: Rivals, pile: Pile, top: int, depth: int, fast: bool
) -> int:
    """Note winners of the next open groups, as long as there is one alone; how many are then."""
    cell = _cell_of(pile, top, pile.vertices[top])
    size = 1
    while pile.level[top] < depth and size == 1:
        group = rivals.open[pile.level[top]]
        size = rivals.sizes[group]
        for i in range(size):
            rivals.pool[i] = rivals.found[tables.starts[group] + i]
        size = sift(tables, rivals, cell, size, fast)
        if size == 1:
            pile.won[top, pile.level[top]] = rivals.pool[0]
            pile.level[top] += 1
    return size


@inline
def _list_open_groups(tables: LayerTables, rivals: Rivals) -> int:
    """Winners of groups that have one rival alone, and which groups have more; how many."""
    count = 0
    for g in range(len(rivals.winners)):
        rivals.winners[g] = rivals.found[tables.starts[g]]
        if rivals.sizes[g] > 1:
            rivals.open[count] = g
            count += 1
    return count


@inline
def _descend(
    tables: LayerTables,
    parents: Parents,
    job: int,
    task: Task,
    pile: Pile,
    rivals: Rivals,
    cut: ClipScratch,
    children: Children,
) -> int:
    """Depth first: split by the next open group, until none is left or one is too close to call.

    The cell itself is at the bottom of the pile.
    """
    depth, top = _list_open_groups(tables, rivals), 1
    while top:
        top -= 1
        size = _decide_groups(tables, rivals, pile, top, depth, task.fast)
        if size > 1:
            code = _divide(tables, rivals, cut, task, pile, top, size)
            if code == NO_ROOM:
                return FULL
            if code >= 0:
                top = code
                continue
        level = pile.level[top]
        parents.counts[job] += level == depth
        if task.keep or level < depth:
            for i in range(depth):
                rivals.winners[rivals.open[i]] = pile.won[top, i] if i < level else -1
            cell = _cell_of(pile, top, pile.vertices[top])
            if not _emit(tables, rivals, cell, parents, job, children):
                return OUT
    return DONE


# ---- many cells ----------------------------------------------------------------------------------


@inline
def _parent(parents: Parents, job: int) -> FloatCell:
    a, b = parents.vstart[job], parents.vstart[job + 1]
    labels = parents.labels[parents.fstart[job] : parents.fstart[job + 1]]
    return FloatCell(parents.points[a:b], parents.stray[a:b], parents.bits[a:b], labels)


@inline
def _hand_on(
    tables: LayerTables,
    parents: Parents,
    job: int,
    rivals: Rivals,
    cell: FloatCell,
    children: Children,
) -> int:
    """Pieces tie, and it matters which wins: the cell as it is, with what was known of it."""
    for g in range(len(rivals.winners)):
        known = parents.known[job, g]
        rivals.winners[g] = known + tables.starts[g] if known >= 0 else -1
    return DONE if _emit(tables, rivals, cell, parents, job, children) else OUT


@resumable_entry
def split_cells(
    tables: LayerTables,
    parents: Parents,
    task: Task,
    pile: Pile,
    rivals: Rivals,
    cut: ClipScratch,
    children: Children,
) -> tuple[int, int]:
    """Split cells; the first that was not split, and why.

    Children are written if they are to be kept. Parts of cells that are too close to call are
    written in any case, with -1 for the winners that are open.
    """
    tables, parents, pile = lent(tables), lent(parents), lent(pile)
    rivals, cut, children = lent(rivals), lent(cut), lent(children)
    fill = children.fill
    for job in range(len(parents.vstart) - 1):
        cell = _parent(parents, job)
        if len(cell.stray) > pile.stray.shape[1]:
            return job, FULL
        state, known, reach = parents.forms[job], parents.known[job], parents.reach
        before = fill[0], fill[1], fill[2]
        parents.counts[job] = 0
        if find_rivals(tables, cell, state, known, reach, rivals, task.fast):
            pile.vertices[0], pile.level[0] = len(cell.stray), 0
            _copy_cell(pile, 0, cell)
            code = _descend(tables, parents, job, task, pile, rivals, cut, children)
        else:
            code = _hand_on(tables, parents, job, rivals, cell, children)
        if code != DONE:
            fill[0], fill[1], fill[2] = before
            parents.counts[job] = 0
            return job, code
    return len(parents.vstart) - 1, DONE
