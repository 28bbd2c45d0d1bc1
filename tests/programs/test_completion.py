"""Completion scripts, as a shell runs them."""

import shutil
import subprocess
import sys

import pytest

from programs.cli import run

COMPLETE = """
source {script}
complete -p {program} >&2
COMP_WORDS=({program} {words} ''); COMP_CWORD=$(({number} + 1)); COMP_LINE="{program} {words} "; COMP_POINT=${{#COMP_LINE}}
_shtab_{function} {program} '' || true
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def main_of(program):
    from importlib import import_module

    return import_module({"tianji": "tianji", "tianji-bench": "suites", "tianji-report": "reports"}[program] + ".__main__").main


@pytest.mark.parametrize(
    ("program", "words", "offered"),
    [
        ("tianji", "train --algo", {"ppo", "dqn", "impala"}),
        ("tianji", "", {"train", "evaluate", "disciplines", "keys"}),
        ("tianji-bench", "", {"run", "doctor", "list"}),
        ("tianji-report", "", {"build", "paper"}),
    ],
)
def test_bash_completes(program, words, offered, tmp_path, capsys):
    pytest.importorskip("shtab", reason="shtab, which writes completion scripts, is not installed")
    if (bash := shutil.which("bash")) is None:
        pytest.skip("bash is not installed")
    with pytest.raises(SystemExit) as ended:
        run(program, main_of(program), ["--print-completion", "bash"])
    assert ended.value.code == 0
    script = tmp_path / "completion.bash"
    script.write_text(capsys.readouterr().out)
    text = COMPLETE.format(
        script=script, program=program, words=words, number=len(words.split()), function=program.replace("-", "_")
    )
    done = subprocess.run([bash, "-c", text], capture_output=True, text=True, check=True, timeout=20)
    assert f"_shtab_{program.replace('-', '_')} {program}" in done.stderr
    assert offered <= set(done.stdout.split())


def test_without_shtab_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert run("tianji", main_of("tianji"), ["--print-completion", "zsh"]) == 2
    assert capsys.readouterr().err == ("tianji: --print-completion: shtab is not installed; pip install shtab brings it\n")
