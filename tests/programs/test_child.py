"""Child processes that answer requests: answers in order, their errors on failure, and no process left behind."""

import sys
import time

import pytest

from programs import child as module
from programs.child import Child, ChildFailed

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"


def python(text):
    return [sys.executable, "-c", text]


def test_answers_come_in_the_order_of_questions():
    with Child("echo", python(ECHO)) as child:
        for number in range(3):
            child.ask({"number": number, "text": "a\nb"})
        assert [child.answer(20.0)["number"] for _ in range(3)] == [0, 1, 2]


def test_large_answers_come_whole():
    with Child("echo", python(ECHO)) as child:
        child.ask("x" * 300_000)
        assert child.answer(20.0) == "x" * 300_000


def test_one_that_fails_is_told_in_its_own_words():
    with pytest.raises(ChildFailed, match=r"^broken: RuntimeError: the wheel came off$"):  # noqa: SIM117
        with Child("broken", python("raise RuntimeError('the wheel came off')")) as child:
            child.answer(20.0)


def test_one_that_says_nothing_is_told_by_its_status():
    with pytest.raises(ChildFailed, match=r"^silent: ended with status 3$"):  # noqa: SIM117
        with Child("silent", python("import sys; sys.exit(3)")) as child:
            child.answer(20.0)


def test_one_that_is_gone_cannot_be_asked():
    with Child("gone", python("pass")) as child:
        child._process.wait()
        with pytest.raises(ChildFailed, match=r"^gone: ended with status 0$"):
            child.ask("anything")


def test_an_answer_has_a_deadline_and_nothing_is_left():
    with pytest.raises(ChildFailed, match="said nothing within 0 s"):  # noqa: SIM117
        with Child("slow", python("import time; time.sleep(600)")) as child:
            child.answer(0.1)
    assert child._process.returncode is not None


def test_one_that_does_not_listen_is_killed(monkeypatch):
    monkeypatch.setattr(module, "GRACE_S", 0.2)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    begun = time.monotonic()
    with Child("deaf", python(deaf)) as child:
        child.answer(20.0)
    assert child._process.returncode == -9
    assert time.monotonic() - begun < 60


def test_what_cannot_be_started_is_told():
    with pytest.raises(ChildFailed, match=r"^nowhere: .*No such file"):
        Child("nowhere", ["/nowhere/at/all"])
