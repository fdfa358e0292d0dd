"""Which neurons are on, off or crossing on a polygon, compiled.

A sign is believed where the value is larger than slack + (|a| + |b|) r; the error is proved in
`_kernels`. Loops over all neurons of a layer keep the least and the largest value of each, so that
the compiler makes vectors of them; open neurons are few and scattered, and go one by one.
"""

from __future__ import annotations

from hardmax.geometry._compiled import inline, subroutine
from hardmax.geometry.counting.plane._arrays import UNSURE, Net, R, Walk, WalkNode, X, Y


@inline
def _radius(walk: Walk, node: WalkNode) -> float:
    """How far off any corner may be."""
    radius = 0.0
    for k in range(node.sides):
        radius = max(radius, walk.poly[node.place, R, k])
    return radius


@inline
def _extremes(walk: Walk, node: WalkNode) -> None:
    """The least and the largest value of every neuron over the corners."""
    maps, low, high, layer = walk.maps, walk.low, walk.high, node.layer
    x, y = walk.poly[node.place, X, 0], walk.poly[node.place, Y, 0]
    for i in range(node.width):
        value = maps[layer, 0, i] * x + maps[layer, 1, i] * y + maps[layer, 2, i]
        low[i] = value
        high[i] = value
    for k in range(1, node.sides):
        x, y = walk.poly[node.place, X, k], walk.poly[node.place, Y, k]
        for i in range(node.width):
            value = maps[layer, 0, i] * x + maps[layer, 1, i] * y + maps[layer, 2, i]
            low[i] = value if value < low[i] else low[i]
            high[i] = value if value > high[i] else high[i]


@inline
def decide_all(net: Net, walk: Walk, node: WalkNode) -> tuple[int, int]:
    """Decide what floats decide, of all neurons: how many stay open, how many are on."""
    maps, low, high, s, layer = walk.maps, walk.low, walk.high, node.place, node.layer
    _extremes(walk, node)
    radius = _radius(walk, node)
    for i in range(node.width):
        doubt = net.slack[layer, i] + (abs(maps[layer, 0, i]) + abs(maps[layer, 1, i])) * radius
        low[i] -= doubt
        high[i] += doubt
    stay, active = 0, 0
    for i in range(node.width):
        is_on = low[i] > 0.0
        is_off = high[i] < 0.0
        walk.on[active] = i
        active += is_on
        walk.pattern[s, i] = is_on
        walk.open[s, stay] = i
        stay += 1 - (is_on | is_off)
    return stay, active


@inline
def decide_open(net: Net, walk: Walk, node: WalkNode, count: int) -> tuple[int, int]:
    """The same for the neurons that are listed as open."""
    poly, s, layer = walk.poly, node.place, node.layer
    radius = _radius(walk, node)
    stay, active = 0, 0
    for q in range(count):
        i = walk.open[s, q]
        a, b, c = walk.maps[layer, 0, i], walk.maps[layer, 1, i], walk.maps[layer, 2, i]
        doubt = net.slack[layer, i] + (abs(a) + abs(b)) * radius
        least = a * poly[s, X, 0] + b * poly[s, Y, 0] + c
        most = least
        for k in range(1, node.sides):
            value = a * poly[s, X, k] + b * poly[s, Y, k] + c
            least = value if value < least else least
            most = value if value > most else most
        is_on = least > doubt
        is_off = most < -doubt
        walk.on[active] = i
        active += is_on
        walk.pattern[s, i] = is_on
        walk.open[s, stay] = i
        stay += 1 - (is_on | is_off)
    return stay, active


@inline
def find_signs(net: Net, walk: Walk, node: WalkNode, count: int) -> int:
    """The signs of open neurons at all corners; how many are unsure."""
    poly, signs, s, layer = walk.poly, walk.signs, node.place, node.layer
    unsure = 0
    for q in range(count):
        i = walk.open[s, q]
        a, b, c = walk.maps[layer, 0, i], walk.maps[layer, 1, i], walk.maps[layer, 2, i]
        for k in range(node.sides):
            value = a * poly[s, X, k] + b * poly[s, Y, k] + c
            doubt = net.slack[layer, i] + (abs(a) + abs(b)) * poly[s, R, k]
            if value > doubt:
                signs[q, k] = 1
            elif value < -doubt:
                signs[q, k] = -1
            else:
                signs[q, k] = UNSURE
                unsure += 1
    return unsure


@subroutine
def _is_nothing(net: Net, walk: Walk, layer: int, i: int) -> bool:
    """Whether a neuron is 0 on the cell because every term is: no bias, no weight from what is on.

    Its form is 0 in floats when this is called; of the first layer that is the truth if its floats
    are exact, and then its slack is 0, as that of nothing else is.
    """
    if layer == 0:
        return net.slack[0, i] == 0.0
    if net.bias[layer, i] != 0.0:
        return False
    first = net.start[layer - 1]
    for j in range(net.start[layer] - first):
        if walk.below[layer - 1, j] and net.columns[first + j, i] != 0.0:
            return False
    return True


@subroutine
def forget_nothings(net: Net, walk: Walk, node: WalkNode, count: int) -> int:
    """Neurons that are identically 0 for want of terms are off: there is nothing to decide."""
    maps, s, layer = walk.maps, node.place, node.layer
    stay = 0
    for q in range(count):
        i = walk.open[s, q]
        empty = maps[layer, 0, i] == 0.0 and maps[layer, 1, i] == 0.0 and maps[layer, 2, i] == 0.0
        if empty and _is_nothing(net, walk, layer, i):
            walk.pattern[s, i] = 0
        else:
            walk.open[s, stay] = i
            stay += 1
    return stay


@inline
def sort_by_signs(walk: Walk, node: WalkNode, count: int) -> tuple[int, int]:
    """Split open neurons by their signs into on, off and crossing; mark sides they vanish on."""
    signs, s = walk.signs, node.place
    stay, active = 0, 0
    for q in range(count):
        i = walk.open[s, q]
        plus, minus, zero = False, False, False
        for k in range(node.sides):
            plus |= signs[q, k] == 1
            minus |= signs[q, k] == -1
            zero |= signs[q, k] != 1 and signs[q, k] != -1
        if plus and minus:
            walk.open[s, stay] = i
            walk.kept[stay] = q
            stay += 1
            continue
        walk.pattern[s, i] = plus
        walk.on[active] = i
        active += plus
        if zero:
            for k in range(node.sides):
                after = k + 1 if k + 1 < node.sides else 0
                if abs(signs[q, k]) != 1 and abs(signs[q, after]) != 1:
                    walk.code[s, k] |= 1
    return stay, active
