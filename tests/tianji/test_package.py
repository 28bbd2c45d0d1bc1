"""What `import tianji` gives, and what it does not bring in."""

import subprocess
import sys

import pytest

import tianji
from tianji.config import TrainConfig
from tianji.run.training import train


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_it_brings_nothing_else_in():
    """Neither what trains nor what that needs."""
    code = "import sys; before = set(sys.modules); import tianji; print(*(set(sys.modules) - before))"
    loaded = python(code)
    assert not {"torch", "gymnasium", "numpy", "msgspec", "zmq", "tianji.config"} & set(loaded.split())


def test_the_settings_come_without_torch():
    assert python("import sys, tianji; tianji.TrainConfig; print('torch' in sys.modules)") == "False"


def test_training_takes_an_import_and_a_call():
    code = """if True:
    import tianji
    result = tianji.train(tianji.TrainConfig(env="CartPole-v1", world="lockstep", stop_steps=1024))
    print(isinstance(result, tianji.Result), result.steps)
    """
    assert python(code) == "True 1024"


def test_what_is_public_is_listed():
    assert {"Result", "TrainConfig", "train"} <= set(dir(tianji))
    assert tianji.TrainConfig is TrainConfig
    # Also where its module was imported before.
    assert tianji.train is train


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = tianji.trian
