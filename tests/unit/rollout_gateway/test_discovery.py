"""dns:host:port means all addresses that the name has now."""

from rollout_gateway.discovery import Discovery, addresses_of
from rollout_gateway.environment import Environment


class Names:
    """A resolver whose answers the test sets; None is a name that cannot be resolved."""

    def __init__(self, **answers: list[str] | None):
        self.answers = answers

    async def __call__(self, host: str, port: int) -> list[str]:
        found = self.answers[host]
        if found is None:
            raise OSError("no such name")
        return [f"{address}:{port}" for address in found]


def environment() -> Environment:
    return Environment([], "t" * 16, call_seconds=1, lease_seconds=3, slot_mode="fresh")


async def test_a_name_stands_for_all_its_addresses_and_a_plain_place_for_itself():
    env = environment()
    discovery = Discovery(env, ["dns:env:9090", "other:1"], Names(env=["10.0.0.2", "10.0.0.1"]))
    await discovery.refresh()
    assert env.addresses == ["10.0.0.1:9090", "10.0.0.2:9090", "other:1"]


async def test_replicas_that_come_and_go_are_followed():
    env, names = environment(), Names(env=["10.0.0.1"])
    discovery = Discovery(env, ["dns:env:9090"], names)
    await discovery.refresh()
    names.answers["env"] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    await discovery.refresh()
    assert len(env.addresses) == 3
    names.answers["env"] = ["10.0.0.3"]
    await discovery.refresh()
    assert env.addresses == ["10.0.0.3:9090"]


async def test_a_name_that_cannot_be_resolved_keeps_what_it_had():
    env, names = environment(), Names(env=["10.0.0.1"])
    discovery = Discovery(env, ["dns:env:9090"], names)
    await discovery.refresh()
    names.answers["env"] = None
    await discovery.refresh()
    assert env.addresses == ["10.0.0.1:9090"]


async def test_a_name_that_never_resolved_gives_no_address():
    env = environment()
    await Discovery(env, ["dns:env:9090"], Names(env=None)).refresh()
    assert env.addresses == []


async def test_other_places_can_be_set_while_it_runs():
    env = environment()
    discovery = Discovery(env, ["dns:env:9090"], Names(env=["10.0.0.1"], more=["10.1.0.1"]))
    await discovery.use(["dns:more:9090"])
    await discovery.refresh()
    assert env.addresses == ["10.1.0.1:9090"]


async def test_the_system_resolves_a_name_to_host_and_port():
    assert "127.0.0.1:9090" in await addresses_of("localhost", 9090)
