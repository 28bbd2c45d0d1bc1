"""The choice of a discipline: a grid of times and prices, and what fits a run."""

import math

import pytest
from commands import refusal
from rules import FACTS

from programs.cli import run
from tianji.__main__ import main
from tianji.config import DQNConfig, NetworkConfig, TrainConfig
from tianji.disciplines.auto import CANDIDATES, choose
from tianji.disciplines.registry import chooser
from tianji.disciplines.round_times import Times
from tianji.disciplines.sizes import Facts

WITHOUT_REPLAY = [one for one in CANDIDATES if one.rule.name != "reactor"]


def times(rho, slowest=1.0, fragments=(1.0,) * 8, **more):
    """A mean fragment of a second, and a slowest one of so many."""
    return Times(fragments_s=fragments, slowest_s=slowest, round_s=1 / rho, **more)


STRAGGLER = (0.4,) * 7 + (5.2,)


@pytest.mark.parametrize(
    ("measured", "price", "discipline", "gain"),
    [
        # All alike: overlap is all that there is to gain.
        (times(1.0), 0.0, "exactly-one-round", 2.0),
        (times(1.0), 0.5, "exactly-one-round", 2 / math.exp(0.5)),
        (times(1.0), 0.8, "strict", 1.0),
        # Little to hide: the youngest samples are as good.
        (times(0.01), 0.0, "strict", 1.0),
        (times(20.0), 0.0, "strict", 1.0),
        (times(0.2), 0.5, "strict", 1.0),
        # A tail, where every actor is slow now and then.
        (times(10.0, 3.0), 0.0, "quota-free", 3.1 / 1.1),
        (times(1.0, 3.0), 0.0, "relaxed", 4.0),
        (times(1.0, 3.0), 0.4, "quota-free", 2.0),
        (times(1.0, 1.5), 0.5, "quota-free", 2.5 / 2),
        # And where each step has a tail, so the end of a round waits for a long step.
        (times(10.0, 3.0, rest_s=0.5), 0.0, "relaxed", 3.1),
        (times(10.0, 3.0, rest_s=0.5), 0.6, "quota-free", 3.1 / 1.6),
        # One is slower than all others.
        (times(1.0, 5.2, STRAGGLER), 0.0, "relaxed", 6.2),
        (times(1.0, 5.2, STRAGGLER), 1.0, "quota-free", 6.2 / (1 + 8 / (7 / 0.4 + 1 / 5.2))),
        # The cores are busy with it: nothing else can be gained.
        (times(1.0, computing_s=1.9), 0.0, "strict", 1.0),
    ],
)
def test_the_least_predicted_time_is_chosen(measured, price, discipline, gain):
    choice = choose(measured, price, WITHOUT_REPLAY)
    assert choice.discipline == discipline
    assert choice.gain == pytest.approx(gain)
    assert f"rho {measured.rho:.2f}, M {measured.spread:.2f}, predicted {gain:.2f}x as fast as strict" in choice.why
    assert ("by throughput alone" in choice.why) == (price == 0)
    assert "\n" not in choice.why


@pytest.mark.parametrize("price", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("rho", [0.1, 0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("slowest", [1.0, 1.5, 4.0])
def test_no_candidate_is_predicted_to_be_more_than_a_tenth_better(rho, slowest, price):
    t = times(rho, slowest)
    choice = choose(t, price, WITHOUT_REPLAY)
    predicted = {one.rule.name: one.round_s(t) * math.exp(price * one.age_rounds(t)) for one in WITHOUT_REPLAY}
    assert predicted[choice.discipline] <= 1.1 * min(predicted.values())


def test_only_what_fits_is_chosen():
    def names(**facts):
        return [one.rule.name for one in chooser({"name": "auto"}, Facts(**{**FACTS, **facts})).fitting]

    assert names() == ["strict", "reactor", "quota-free", "exactly-one-round", "relaxed"]
    # A single slot has no room for a fragment beside the one that is trained on.
    assert names(slots=1) == ["strict", "reactor", "relaxed"]
    assert names(replays=True) == ["reactor", "relaxed"]


def test_until_the_choice_the_rule_is_a_barrier():
    assert TrainConfig(env="CartPole-v1", discipline="auto").rule.name == "strict"
    replaying = TrainConfig(
        env="CartPole-v1", algo="dqn", network=NetworkConfig(kind="mlp-q"), dqn=DQNConfig(), discipline="auto"
    )
    assert replaying.rule.name == "reactor"
    chosen = TrainConfig(env="CartPole-v1", discipline={"name": "auto", "price": 0.2})
    again = chosen.under(chosen.auto.choose(times(1.0)))
    assert (again.rule.name, again.auto) == ("exactly-one-round", None)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["discipline.name=auto", "discipline.price=-1"], "`float` >= 0"),
        (["discipline.name=auto", "discipline.price=inf"], "`float` <= 100"),
        (["discipline.name=auto", "discipline.eta=1"], "unknown key `eta`"),
        (["discipline.name=auto", "groups=2"], "discipline 'auto' is for one group and launcher 'local'"),
        (["discipline.name=auto", "launcher=ray"], "discipline 'auto' is for one group and launcher 'local'"),
    ],
)
def test_bad_settings_are_one_line(capsys, settings, says):
    given = [word for one in settings for word in ("--set", one)]
    assert says in refusal(capsys, run, "tianji", main, ["train", "--env", "CartPole-v1", *given])
