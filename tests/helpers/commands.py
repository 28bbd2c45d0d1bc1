"""Commands as a user runs them."""


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
