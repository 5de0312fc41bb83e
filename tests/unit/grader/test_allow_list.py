import pytest
from envfarm.errors import InvalidArgument

from grader.allow_list import AllowList

ALLOWED = AllowList(["127.0.0.1", "env-1:7001", "*.farm.local", "[::1]"])


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("127.0.0.1:5000", "dns:///127.0.0.1:5000"),
        ("env-1:7001", "dns:///env-1:7001"),
        ("ENV-1:7001", "dns:///env-1:7001"),
        ("a.farm.local:80", "dns:///a.farm.local:80"),
        ("[::1]:7001", "dns:///[::1]:7001"),
    ],
)
def test_an_allowed_address_is_reached_by_dns_only(address: str, target: str):
    assert ALLOWED.target(address) == target


@pytest.mark.parametrize(
    "address",
    [
        "env-1:7002",
        "env-2:7001",
        "farm.local:80",
        ".farm.local:80",
        "evilfarm.local:80",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.0.0.1:99999",
        "127.0.0.1:5000/x",
        "127.0.0.1:5000,10.0.0.1:5000",
        "unix:/run/x.sock",
        "unix:1",
        "dns://evil/127.0.0.1:5000",
        "ipv4:127.0.0.1:5000",
        "user@127.0.0.1:5000",
        "127.0.0.1:5000\n",
        "",
    ],
)
def test_any_other_address_is_refused(address: str):
    with pytest.raises(InvalidArgument, match=r"episode\.env_server"):
        ALLOWED.target(address)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_all_addresses_of_a_dns_entry_are_allowed_and_no_others():
    allowed = AllowList(["dns:env-server:9090"], look_up={"env-server": {"10.0.0.1", "::1"}}.get)
    assert allowed.target("10.0.0.1:9090") == "dns:///10.0.0.1:9090"
    assert allowed.target("[::1]:9090") == "dns:///[::1]:9090"
    for address in ("10.0.0.2:9090", "10.0.0.1:22", "env-server:9090"):
        with pytest.raises(InvalidArgument, match="may read"):
            allowed.target(address)


def test_a_replica_that_left_stays_readable_for_a_while_and_a_new_one_is_found():
    clock, names = Clock(), {"env": {"10.0.0.1"}}
    allowed = AllowList(["dns:env"], look_up=names.__getitem__, clock=clock)
    allowed.target("10.0.0.1:9090")
    names["env"] = {"10.0.0.2"}
    clock.now += 2
    allowed.target("10.0.0.2:9090")
    allowed.target("10.0.0.1:9090")
    clock.now += 301
    with pytest.raises(InvalidArgument):
        allowed.target("10.0.0.1:9090")


def test_unknown_addresses_cause_at_most_one_look_up_a_second():
    asked: list[str] = []
    allowed = AllowList(
        ["dns:env"], look_up=lambda name: asked.append(name) or set(), clock=Clock()
    )
    for number in range(50):
        with pytest.raises(InvalidArgument):
            allowed.target(f"10.0.0.{number}:9090")
    assert asked == ["env"]
