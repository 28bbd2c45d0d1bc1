"""Commands as a user runs them."""

import psutil


def refusal(capsys, command, *arguments):
    """What a command says when it refuses its input: one line on stderr, and exit status 2."""
    try:
        status = command(*arguments)
    except SystemExit as exit_:
        status = exit_.code
    out, err = capsys.readouterr()
    assert status == 2, (out, err)
    assert err.count("\n") == 1, err
    return err


def processes_told(folder):
    """Processes in whose environment this folder stands: all of a run that was given it as its temporary one."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(folder in value for value in process.environ().values()):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found
