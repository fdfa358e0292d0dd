"""Convex hulls that are right, and the exact points, signs and equations behind them."""
