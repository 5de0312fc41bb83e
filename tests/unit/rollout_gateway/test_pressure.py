"""How many attempts run at once follows the engines' queues and caches."""

from rollout_gateway.engine import GAUGE, Pressure
from rollout_gateway.pressure import Bounds, lasting, next_limit

BOUNDS = Bounds(least=8, most=64)
IDLE, FULL, QUEUE = Pressure(0, 0.2), Pressure(0, 0.95), Pressure(3, 0.5)


def test_full_caches_and_queues_take_seats_away_down_to_the_least():
    assert next_limit(64, 64, [IDLE, FULL], BOUNDS) == 54
    assert next_limit(64, 64, [QUEUE], BOUNDS) == 54
    assert next_limit(9, 9, [QUEUE], BOUNDS) == 8
    assert next_limit(64, 20, [QUEUE], BOUNDS) == 17


def test_room_gives_seats_when_all_are_taken_up_to_the_most():
    assert next_limit(20, 20, [IDLE, IDLE], BOUNDS) == 22
    assert next_limit(20, 19, [IDLE], BOUNDS) == 20
    assert next_limit(63, 63, [IDLE], BOUNDS) == 64
    assert next_limit(20, 20, [Pressure(0, 0.8)], BOUNDS) == 20


def test_engines_that_tell_nothing_change_nothing():
    assert next_limit(32, 32, [], BOUNDS) == 32


def test_a_burst_is_no_pressure():
    assert lasting([IDLE], [QUEUE]) == [Pressure(0, 0.2)]
    assert lasting([QUEUE], [Pressure(2, 0.9)]) == [Pressure(2, 0.5)]
    assert lasting([IDLE, IDLE], [QUEUE]) == []


def test_the_gauges_of_vllm_are_read():
    text = (
        "# HELP vllm:num_requests_waiting Number.\n"
        'vllm:num_requests_waiting{engine="0",model_name="policy"} 3.0\n'
        'vllm:num_requests_waiting_by_reason{engine="0"} 9.0\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="policy"} 0.125\n'
    )
    assert GAUGE.findall(text) == [
        ("num_requests_waiting", "3.0"),
        ("kv_cache_usage_perc", "0.125"),
    ]
