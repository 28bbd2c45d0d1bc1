"""The system's parts, each measured alone: what a regression gate compares with another revision."""
