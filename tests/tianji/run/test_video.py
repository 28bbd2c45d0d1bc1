"""Videos of a policy, without a screen."""

import os
import subprocess
import sys

import numpy as np
import pytest

from programs.cli import ConfigError
from tianji import ActionsConfig, PPOConfig, TrainConfig, train
from tianji.__main__ import main
from tianji.policy import load_policy
from tianji.run.play import Player
from tianji.run.video import Screen


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    ppo = PPOConfig(rollout_steps=32)
    train(TrainConfig(env="CartPole-v1", world="lockstep", actors=1, envs_per_actor=2, stop_steps=128, ppo=ppo), out=folder)
    return folder


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_an_episode_is_written_as_a_video(run, tmp_path, capsys, suffix):
    pytest.importorskip("cv2" if suffix == ".mp4" else "PIL")
    pytest.importorskip("pygame")
    file = tmp_path / f"play{suffix}"
    assert main(["evaluate", str(run), "--episodes", "2", "--seed", "3", "--video", str(file)]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    pictures = int(said.split(": ")[1].split(" ")[0])
    assert said.endswith(f"{pictures / 50:.1f} s")
    if suffix == ".gif":
        from PIL import Image

        with Image.open(file) as shown:
            assert shown.size == (600, 400)
            # Pictures that equal the one before are one, shown for longer.
            assert 1 < shown.n_frames <= pictures
            assert len(np.unique(np.asarray(shown.convert("RGB")).reshape(-1, 3), axis=0)) > 2
    else:
        import cv2

        shown = cv2.VideoCapture(str(file))
        assert int(shown.get(cv2.CAP_PROP_FRAME_COUNT)) == pictures
        assert shown.read()[1].std() > 1


def test_an_episode_is_shown_in_a_window(run, tmp_path):
    """In a process with a window of SDL's that is seen nowhere; pygame keeps its display for the whole of a process."""
    pytest.importorskip("pygame")
    code = (
        "import sys, pygame\n"
        "flip, flips = pygame.display.flip, []\n"
        "pygame.display.flip = lambda: flips.append(flip())\n"
        "from tianji.__main__ import main\n"
        "status = main(sys.argv[1:])\n"
        "print('shown', len(flips), 'open', pygame.display.get_init())\n"
        "sys.exit(status)"
    )
    command = [sys.executable, "-c", code, "evaluate", str(run), "--episodes", "1", "--seed", "3", "--render"]
    hidden = {**os.environ, "SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=hidden, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    length = round(float(done.stdout.split()[2]))
    # CartPole's return is its length: a picture of the first observation, and one after each step.
    assert done.stdout.splitlines()[-1] == f"shown {length + 1} open False"


def test_the_episode_is_the_one_that_is_evaluated():
    pytest.importorskip("pygame")
    config = TrainConfig(
        env="Pendulum-v1", world="lockstep", actors=1, envs_per_actor=2, stop_steps=64, ppo=PPOConfig(rollout_steps=32),
        actions=ActionsConfig(bounds="squash"),
    )  # fmt: skip
    policy = train(config).policy
    player, screen = Player("Pendulum-v1", 1), Screen(Player("Pendulum-v1", 1).fits(policy), "rgb_array")
    frames = list(screen.play(policy, 5))
    # Of each of the 200 observations, the last one of the episode included.
    assert len(frames) == 201
    assert frames[0].shape == (500, 500, 3)
    rewards = []
    step = screen._env.step
    screen._env.step = lambda action: rewards.append(step(action)) or rewards[-1]
    list(screen.play(policy, 5))
    assert sum(reward for _, reward, *_ in rewards) == pytest.approx(player.play(policy, [5])[0])
    screen.close()
    player.close()


@pytest.mark.parametrize(("file", "says"), [("play.avi", "FILE.gif or FILE.mp4"), ("there.gif", "exists")])
def test_other_files_are_refused_before_anything_is_played(run, tmp_path, capsys, file, says):
    (tmp_path / "there.gif").touch()
    with pytest.raises(ConfigError, match=says):
        main(["evaluate", str(run), "--video", str(tmp_path / file)])
    assert (tmp_path / "there.gif").stat().st_size == 0


@pytest.mark.filterwarnings("ignore")
def test_an_environment_without_pictures_is_told(run):
    policy = load_policy(run / "policy.safetensors")
    player = Player("CartPole-v1", 1)
    with pytest.raises(ConfigError, match="environment CartPole-v1: it has no render mode hologram"):
        Screen(player.fits(policy), "hologram")
    player.close()
