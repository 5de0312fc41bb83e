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
