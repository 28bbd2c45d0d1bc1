"""Figures for a paper: column width, vector, each with its caption, table and data."""
