"""One state folder in which the tiny model is made and the tasks are proved once."""

import pytest

from tests.support.domains import orders_alone
from tests.support.envfarm_command import Envfarm


@pytest.fixture(scope="session")
def warm(tmp_path_factory) -> Envfarm:
    domains = orders_alone(tmp_path_factory.mktemp("shelf") / "domains")
    farm = Envfarm(tmp_path_factory.mktemp("state"), domains)
    try:
        farm.up()
    finally:
        farm.run("down")
    return farm
