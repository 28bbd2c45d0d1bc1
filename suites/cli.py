"""The project's command-line manners, for the packages above: see `tianji.cli`."""

from tianji.cli import DONE, FAILED, INTERRUPTED, UNUSABLE, OneLineParser, run
from tianji.settings import ConfigError

__all__ = ["DONE", "FAILED", "INTERRUPTED", "UNUSABLE", "ConfigError", "OneLineParser", "run"]
