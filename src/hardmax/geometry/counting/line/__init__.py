"""Breakpoints, cells and regions along segments."""
