"""Splitting many cells by one layer: a small depth-first search over the groups of each."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit

from hardmax.geometry.counting.switch._kernels import (
    CLOSE,
    DONE,
    EMPTY,
    FULL,
    ROOM,
    UNCHANGED,
    candidates,
    clip,
    sift,
)
from hardmax.numerics import TINY, UNIT

OUT = 3  # the buffers for children are full: go on from this cell with empty ones


@njit(cache=True, error_model="numpy")
def split(tables, reach, batch, number, fast, keep, stack, outs, counts, fill):
    """Split the cells of a batch; the first that was not split, and why.

    `counts` says how many children each has. With `keep` they are written to `outs`, and `fill`
    says how far. Parts of cells that are too close to call are written in any case, with -1 for
    the winners that are open.
    """
    rows, starts, score, payload, target, base, harmless = tables
    vstart, points, stray, bits, fstart, labels, forms, known = batch
    d, width = points.shape[1], len(starts) - 1
    count = len(rows[2])
    made, bulk, slope = np.empty((count, d + 2)), np.empty(count), np.empty(count)
    found, sizes = np.empty(len(score), dtype=np.int64), np.empty(width, dtype=np.int64)
    open_groups, winners = np.empty(width, dtype=np.int64), np.empty(width, dtype=np.int64)
    wiring = (starts, payload, target, base, reach)
    layer = (rows, starts, score, harmless)
    for job in range(len(vstart) - 1):
        a, b = vstart[job], vstart[job + 1]
        if b - a > stack[1].shape[1]:
            return job, FULL
        sure = candidates(
            layer, reach, forms[job], points[a:b], stray[a:b], fast, made, bulk, slope, found,
            sizes, stack[9], known[job],
        )  # fmt: skip
        here = (points[a:b], stray[a:b], bits[a:b], labels[fstart[job] : fstart[job + 1]])
        open_count = 0
        for g in range(width):
            if not sure:
                winners[g] = known[job, g] + starts[g] if known[job, g] >= 0 else -1
                continue
            winners[g] = found[starts[g]]
            if sizes[g] > 1:
                open_groups[open_count] = g
                open_count += 1
        before = fill.copy()
        counts[job] = 0
        if sure:
            choice = (starts, score, found, sizes, open_groups[:open_count], winners)
            code = _descend((made, bulk, slope), choice, here, harmless, number, fast, keep, stack,
                            wiring, outs, fill, counts, job)  # fmt: skip
        else:
            code = DONE if _emit(made, winners, wiring, job, outs, fill, here) else OUT
        if code != DONE:
            fill[:] = before
            counts[job] = 0
            return job, code
    return len(vstart) - 1, DONE


@njit(cache=True, error_model="numpy")
def _descend(
    composed, choice, here, harmless, number, fast, keep, stack, wiring, outs, fill, counts, job
):
    """Depth first: split by the next open group, until none is left or one is too close to call."""
    made, bulk, slope = composed
    starts, score, found, sizes, open_groups, winners = choice
    s_count, s_points, s_stray, s_bits, s_labels, s_level, s_won, _, _, values = stack
    depth, nv = len(open_groups), len(here[1])
    s_count[0], s_level[0] = nv, 0
    s_points[0, :nv], s_stray[0, :nv], s_bits[0, :nv] = here[0], here[1], here[2]
    s_labels[0, : len(here[3])] = here[3]
    top, g = 1, 0
    pool = np.empty(2 * len(values), dtype=np.int64)
    while top:
        top -= 1
        nv, level = s_count[top], s_level[top]
        cell = (s_points[top, :nv], s_stray[top, :nv], s_bits[top, :nv], s_labels[top])
        size, code = 1, 0
        while level < depth and size == 1:
            g = open_groups[level]
            size = sizes[g]
            for i in range(size):
                pool[i] = found[starts[g] + i]
            size = sift(
                made, bulk, slope, score, cell[0], cell[1], pool, size, values, fast, harmless
            )
            if size == 1:
                s_won[top, level] = pool[0]
                level += 1
        if size > 1:
            code = _divide(composed, score, pool, size, number, fast, top, level, g, starts, stack)
            if code == ROOM:
                return FULL
            if code >= 0:
                top = code
                continue
        counts[job] += level == depth
        if keep or level < depth:
            for i in range(depth):
                winners[open_groups[i]] = s_won[top, i] if i < level else -1
            if not _emit(made, winners, wiring, job, outs, fill, cell):
                return OUT
    return DONE


@njit(cache=True, error_model="numpy")
def _divide(composed, score, pool, size, number, fast, top, level, group, starts, stack):
    """Push the part of the cell at `top` that each piece wins; the new top of the stack."""
    made, bulk, slope = composed
    s_count, s_points, s_stray, s_bits, s_labels, s_level, s_won, work, spare, _ = stack
    nv, d = s_count[top], s_points.shape[2]
    b_points, b_stray, b_bits, b_labels = spare
    b_points[0, :nv], b_stray[0, :nv] = s_points[top, :nv], s_stray[top, :nv]
    b_bits[0, :nv], b_labels[0] = s_bits[top, :nv], s_labels[top]
    won = s_won[top].copy()
    form, label = np.empty(d + 1), np.empty(4, dtype=np.int32)
    free = top
    for i in range(size):
        p = score[pool[i]]
        now, count, other = 0, nv, 1
        for j in range(size):
            if j == i:
                continue
            q = score[pool[j]]
            for c in range(d + 1):
                form[c] = made[p, c] - made[q, c]
            label[0], label[1] = number, group
            label[2], label[3] = pool[i] - starts[group], pool[j] - starts[group]
            code = clip(
                form, bulk[p] + bulk[q], slope[p] + slope[q],
                (b_points[now], b_stray[now], b_bits[now], b_labels[now]), count, label,
                (b_points[other], b_stray[other], b_bits[other], b_labels[other]), work, fast,
            )  # fmt: skip
            if code == CLOSE:  # the cell as it was: something may have been pushed over it
                s_points[top, :nv], s_stray[top, :nv] = b_points[0, :nv], b_stray[0, :nv]
                s_bits[top, :nv], s_labels[top] = b_bits[0, :nv], b_labels[0]
                return CLOSE
            if code == ROOM:
                return ROOM
            if code == EMPTY:
                count = 0
                break
            if code != UNCHANGED:
                count = code
                now, other = other, 3 - other if now == 0 else now
        if count == 0:
            continue
        if free == len(s_count):
            return ROOM
        s_count[free], s_level[free] = count, level + 1
        s_points[free, :count], s_stray[free, :count] = b_points[now, :count], b_stray[now, :count]
        s_bits[free, :count], s_labels[free] = b_bits[now, :count], b_labels[now]
        s_won[free] = won
        s_won[free, level] = pool[i]
        free += 1
    return free


@njit(cache=True, error_model="numpy")
def _emit(made, winners, wiring, job, outs, fill, cell):
    """Write a child, or a part that is open: its parent, who won, its polytope, its state."""
    points, stray, bits, labels = cell
    o_parent, o_won, o_vstart, o_points, o_stray, o_bits, o_fstart, o_labels, o_forms = outs
    k, v, f = fill[0], fill[1], fill[2]
    nv, words = len(stray), bits.shape[1]
    if k == len(o_parent) or v + nv > len(o_stray) or f + 64 * words > len(o_labels):
        return False
    o_parent[k] = job
    starts, is_open = wiring[0], False
    for g in range(len(winners)):
        o_won[k, g] = winners[g] - starts[g] if winners[g] >= 0 else -1
        is_open = is_open or winners[g] < 0
    o_points[v : v + nv], o_stray[v : v + nv], o_bits[v : v + nv] = points, stray, np.uint64(0)
    facets = 0
    for place in range(64 * words):
        word, shift = place >> 6, np.uint64(place & 63)
        seen = False
        for i in range(nv):
            if (bits[i, word] >> shift) & np.uint64(1):
                seen = True
                o_bits[v + i, facets >> 6] |= np.uint64(1) << np.uint64(facets & 63)
        if seen:
            o_labels[f + facets] = labels[place]
            facets += 1
    if not is_open:  # then it is kept
        _state(made, winners, wiring, o_forms[k])
    fill[0], fill[1], fill[2] = k + 1, v + nv, f + facets
    o_vstart[k + 1], o_fstart[k + 1] = fill[1], fill[2]
    return True


@njit(cache=True, error_model="numpy")
def _state(made, winners, wiring, forms):
    """The next state: base rows and what the winners add. Every sum rounds once more.

    Two units pay for that and for the rounding of the size; products in it may underflow.
    """
    _, payload, target, base, reach = wiring
    d = forms.shape[1] - 2
    for i in range(len(base)):
        if base[i] >= 0:
            forms[i] = made[base[i]]
        else:
            forms[i] = 0.0
    for g in range(len(winners)):
        for t in range(payload.shape[1]):
            if target[g, t] < 0:
                continue
            row, at = payload[winners[g], t], target[g, t]
            size = 0.0
            for c in range(d + 1):
                forms[at, c] += made[row, c]
                size += abs(forms[at, c]) * (reach[c] if c < d else 1.0)
            forms[at, d + 1] += made[row, d + 1] + 2 * UNIT * size + TINY
