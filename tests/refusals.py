"""What every command owes a user whose input it cannot use."""


def one_line(capsys, call):
    """Run a command that must refuse: exit status 2 and one line on stderr, which is returned."""
    try:
        status = call()
    except SystemExit as exit_:
        status = exit_.code
    out, err = capsys.readouterr()
    assert status == 2, (out, err)
    assert err.count("\n") == 1, err
    return err
