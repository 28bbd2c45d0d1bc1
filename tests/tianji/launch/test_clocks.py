"""Times of other hosts, whose clocks began elsewhere."""

from tianji.launch.clocks import Clocks
from tianji.messages import Done, Episode, Episodes, Saved, Started


def test_times_of_this_host_stay_as_they_are():
    clocks = Clocks("here")
    clocks.greeted("actor", "here", 5, 1_000)
    assert clocks.translated("actor", Started("actor", 7), 1_010).at_ns == 7
    assert clocks.translated("unknown", Started("unknown", 7), 1_010).at_ns == 7


def test_times_of_another_host_follow_the_message_that_took_the_least_time():
    clocks, ahead = Clocks("here"), 10**15
    clocks.greeted("actor", "there", ahead + 100, 100 + 900)
    # The first message was under way for 900 ns, this one for 200.
    assert clocks.translated("actor", Started("actor", ahead + 2_000), 2_200).at_ns == 2_200
    # A slow one does not make it worse.
    told = clocks.translated("actor", Saved("actor", 1, 1, ahead + 3_000), 9_000)
    assert (told.at_ns, told.steps) == (3_200, 1)
    episodes = Episodes("actor", 10, ahead + 4_000, [Episode(ahead + 3_500, 1.0, 5, 10)])
    told = clocks.translated("actor", episodes, 9_000)
    assert (told.at_ns, told.episodes[0].at_ns, told.episodes[0].length) == (4_200, 3_700, 5)
    assert clocks.translated("actor", Done("steps"), 9_000) == Done("steps")


def test_a_process_that_is_started_again_elsewhere_has_another_clock():
    clocks = Clocks("here")
    clocks.greeted("actor", "there", 10**15, 0)
    clocks.greeted("actor", "here", 50, 50)
    assert clocks.translated("actor", Started("actor", 60), 61).at_ns == 60
