from datetime import datetime, timedelta

from tidelog.gaps import gap, is_filled

NOON = datetime(2026, 11, 15, 12)


def test_readings_that_follow_each_other_have_no_gap():
    assert gap(NOON, NOON + timedelta(minutes=15)) == timedelta(0)


def test_a_gap_is_what_is_missing_between_two_readings():
    assert gap(NOON, NOON + timedelta(hours=1)) == timedelta(minutes=45)


def test_an_hour_is_filled_and_more_is_not():
    assert is_filled(timedelta(hours=1))
    assert not is_filled(timedelta(hours=1, minutes=15))
