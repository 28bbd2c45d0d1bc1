"""References as `module:attribute`: found from any folder of a user, and refused in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from programs.cli import ConfigError
from tianji import references


def refused(action, *arguments):
    with pytest.raises(ConfigError) as raised:
        action(*arguments)
    text = str(raised.value)
    assert "\n" not in text
    return text


def found(reference):
    return references.attribute_of(*references.module_of(reference, "it"), "it")


def test_an_attribute_is_found(own):
    own("answer = 42")
    assert found("my_module:answer") == 42


def test_a_module_of_a_package_is_found(own, tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "inner.py").write_text("answer = 43")
    assert found("pack.inner:answer") == 43


def test_the_current_folder_is_searched_first(own, tmp_path, monkeypatch):
    own("where = 'on the path'")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "my_module.py").write_text("where = 'here'")
    monkeypatch.chdir(tmp_path / "here")
    assert found("my_module:where") == "here"


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("my_module", "write it as module:attribute"),
        ("my_module:", "write it as module:attribute"),
        (":make", "write it as module:attribute"),
        ("./my_module:make", "write it as module:attribute"),
        ("my_module.py:make", "write its module, my_module:make"),
        ("nowhere_at_all:make", "there is no module nowhere_at_all"),
        ("my_module.inner:make", "there is no module my_module.inner"),
        ("__main__:make", "put this into a separate module"),
    ],
)
def test_what_names_no_module_is_refused(own, reference, says):
    own("def make(): ...")
    assert says in refused(references.module_of, reference, "it")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import nowhere_at_all", "importing my_module raises ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("1 / 0", "importing my_module raises ZeroDivisionError: division by zero"),
        ("def make(:", "importing my_module raises SyntaxError"),
        ("raise ValueError('two\\nlines')", "raises ValueError: two lines"),
        ("raise SystemExit(3)", "raises SystemExit: 3"),
        ("assert False", "raises AssertionError"),
    ],
)
def test_a_module_that_fails_is_named_with_its_exception(own, source, says):
    own(source)
    text = refused(references.module_of, "my_module:make", "environment my_module:make")
    assert text.startswith("environment my_module:make: ")
    assert says in text


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def make(): ...", "module my_module has no mak; did you mean make?"),
        ("class Corridor: ...\ndef lake(): ...", "has no mak; it has Corridor, lake"),
        ("from os import path, remove\n_make = len", "has no mak; it defines nothing that could be meant"),
    ],
)
def test_the_nearest_name_is_offered(own, source, says):
    own(source)
    assert says in refused(found, "my_module:mak")


def test_what_cannot_be_called_is_refused():
    assert "of type int and cannot be called" in refused(references.call, 3, "it")


def test_what_raises_when_it_is_called_is_named():
    assert refused(references.call, lambda a, b: a / b, "it", 1, 0).endswith(
        "it: called with (1, 0), it raises ZeroDivisionError: division by zero"
    )


def test_a_command_installed_elsewhere_looks_into_the_current_folder(tmp_path):
    """The first entry of its path is the folder of the command, not the one where the user stands."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "here").mkdir()
    root = Path(references.__file__).parents[1]
    command = tmp_path / "bin" / "command"
    command.write_text(
        f"import sys; sys.path.append({str(root)!r})\nfrom tianji import references\n"
        "print(references.module_of('my_module:answer', 'it')[0].answer)"
    )
    (tmp_path / "here" / "my_module.py").write_text("answer = 44")
    done = subprocess.run([sys.executable, command], cwd=tmp_path / "here", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "44"), done.stderr
