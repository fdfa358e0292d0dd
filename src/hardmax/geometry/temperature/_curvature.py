"""What a gap guarantees of derivatives: the Hessian of log-sum-exp, the Jacobian of a head."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hardmax.geometry.temperature._lemmas import exponent_of, from_above, vanishing
from hardmax.numerics import inflate, product_up, up


def hessian_bound(gap: ArrayLike, tokens: ArrayLike, coldness: ArrayLike) -> np.ndarray:
    """The largest spectral norm of the Hessian of log-sum-exp: max_m (m+1) r beta / (1 + m r)^2.

    Theorem. Let f(s) = (1/beta) log sum_j e^{beta s_j} over N >= 2 tokens. On the set where
    s_i >= s_j + gap for all j != i, gap >= 0, the supremum of |f''(s)| is the maximum of
    beta h(m), h(m) = (m+1) r / (1 + m r)^2, over the whole numbers 1 <= m < N. With m losers at
    the gap and the others far below it is approached, and attained if the best m is N-1. (The
    maximum has f'' = 0, so this is the distance of the Hessians.)

    Proof. f'' = beta (diag p - p p^T); its norm is beta times the largest eigenvalue lambda, the
    maximum of the variance of x under p over unit vectors x. Write p = w/S with w_i = 1 and
    0 <= w_j <= r, S = sum w; let r < 1, the case r = 1 follows by continuity. Eigenvalues other
    than entries of p solve sum_j p_j/(p_j - lambda) = 0, so lambda is simple and lies strictly
    between the second largest entry and p_i =: a; and lambda <= 1/2, as the entries of a unit
    vector spread over at most sqrt 2. The eigenvector has x_j - mu = lambda mu/(p_j - lambda),
    mu = p.x, and 1 = |x|^2 gives 1/mu^2 = M = sum_k p_k^2/(p_k - lambda)^2. By the envelope rule
        d lambda/d w_j = ((x_j - mu)^2 - lambda)/S,
    positive where t := lambda - p_j < sqrt(lambda/M), negative where it is larger. Suppose that
    it vanishes, so M = lambda/t^2, and let y = p_j, B = sum_k p_k^2/(p_k - lambda)^3.
    Differentiating once more, with d p_k/d w_j = ([j=k] - p_k)/S, the second derivative has the
    sign of 1 - 2y - t^3 B. Keeping only tokens i and j in M and B (the other terms of B are
    negative), t a/(a - lambda) <= u := sqrt(lambda - y^2), hence t^3 B <= u^3/a - y^2, and the
    same inequality bounds 1/a by (1 - t/u)/lambda. So 1 - 2y - t^3 B is at least
        (1-y)^2 - u^2 (u - t)/lambda >= (1-y)^2 - (1 - 2y^2)(1/4 + y - y^2),
    as u - lambda is at most 1/4 - y^2 (at u = 1/2) and lambda <= 1/2. With z = 1/2 - y >= 0 the
    right side is (5/2) z^2 + 2 z^3 - 2 z^4, positive unless y = lambda = 1/2, which t > 0
    excludes. So lambda, as a function of one w_j in [0, r], has no maximum inside: it can be
    raised by moving each w_j to 0 or r in turn. With m losers at r and the others at 0 the
    matrix acts on the span of e_i and the sum of those m losers as r/(1+mr)^2 [[m, -m], [-1, 1]],
    whose eigenvalues are 0 and h(m).

    h rises up to m = 1/r - 2 and falls beyond, so two whole numbers need to be tried. As
    h(m) <= (m+1) r <= N r, the bound N r beta holds, sharp as r goes to 0; (N-1) r beta, as
    published, is false already at N = 2, where the norm 2 r beta/(1+r)^2 is nearly twice that.
    """
    exponent = exponent_of(np.maximum(gap, 0.0), coldness)
    most = np.maximum(np.asarray(tokens, dtype=np.float64) - 1.0, 0.0)
    with np.errstate(under="ignore", divide="ignore", over="ignore", invalid="ignore"):
        r = np.exp(-exponent)
        best = np.minimum(np.floor(np.maximum(1.0 / r - 2.0, 1.0)), most)
        share = np.maximum(_share(best, r), _share(np.minimum(best + 1.0, most), r))
        norm = from_above(coldness * share, exponent, 7)
        lost = product_up(vanishing(exponent, most + 1.0), coldness)
    return np.where(most == 0.0, 0.0, np.where(np.isinf(exponent), 0.0, norm + lost))


def _share(losers: np.ndarray, r: np.ndarray) -> np.ndarray:
    return (losers + 1.0) * r / (1.0 + losers * r) ** 2


def spread_share(loser_weight: ArrayLike) -> np.ndarray:
    """The largest variance on an interval of length 1 if one point has the weight 1 - e or more.

    It is e(1-e) for e <= 1/2, and 1/4 beyond. Proof. Let the point sit at x with weight
    p >= 1 - e and the rest, of mean y, have the weight 1 - p. The variance is
    p(1-p)(x-y)^2 + (1-p) Var(rest), and Var(rest) <= y(1-y) on [0, 1]. This is convex in x, so
    x may be taken at an end, say 0, where it becomes (1-p)(y - (1-p) y^2): increasing in y up to
    1/(2(1-p)), which is at least 1 if p >= 1/2. So the maximum is p(1-p) there, and 1/4 for a
    smaller p; p(1-p) falls on p >= 1/2, so p = 1 - e is the worst. Attained with the rest at the
    other end (for e > 1/2: as much of it as makes half the weight).
    """
    e = np.asarray(loser_weight, dtype=np.float64)
    return np.where(e <= 0.5, e * (1.0 - e), 0.25)


def jacobian_bound(
    loser_weight: ArrayLike,
    coldness: ArrayLike,
    *,
    values: tuple[ArrayLike, ArrayLike],
    keys: tuple[ArrayLike, ArrayLike],
    scale: float = 1.0,
) -> np.ndarray:
    """How fast the output can turn with the query: the spectral norm of dZ/dq.

    `values` and `keys` are pairs (radius, diameter): the largest distance to the winner's, and
    between any two. With e = `loser_weight`, at least 1 - p_i, the norm is at most
    beta scale sqrt(Var V Var K), where Var V <= min(e radius^2, g diam^2), g = `spread_share(e)`,
    and the same for keys. In particular it is at most beta scale g diam V diam K.

    Proof. Z = sum p_j v_j and dp_j/dq = beta scale p_j (k_j - sum_l p_l k_l), so dZ/dq is
    beta scale Cov(v, k). For unit vectors a, b the number a^T Cov(v, k) b is the covariance of
    a.v and b.k, at most the root of the product of their variances. a.v lies in an interval as
    long as diam V and is a.v_i with probability 1 - e or more: `spread_share`. And its variance
    is at most E |v - v_i|^2 <= e radius^2. The hard head has the Jacobian 0 inside its cells, so
    this is the distance of the Jacobians.

    Attained: g diam V diam K when the losers, with all of the weight e <= 1/2 together, share
    one key and one value; e radius radius when two losers of weight e/2 each have keys and
    values opposite to each other with the winner's in the middle. For a hardmax: 0 if e = 0,
    else infinity.
    """
    e, coldness = np.asarray(loser_weight, dtype=np.float64), np.asarray(coldness, dtype=np.float64)
    spread = product_up(_deviation(e, *values), _deviation(e, *keys))
    return np.asarray(product_up(product_up(coldness, scale), spread))


def _deviation(e: np.ndarray, radius: ArrayLike, diameter: ArrayLike) -> np.ndarray:
    """The largest standard deviation in one direction; roots first, so that no square overflows."""
    about, between = up(np.sqrt(e)), inflate(np.sqrt(spread_share(e)), 3)
    return np.minimum(product_up(about, radius), product_up(between, diameter))
