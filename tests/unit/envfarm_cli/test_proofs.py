"""What was proved stays proved, domain by domain, until one of its files changes."""

from pathlib import Path

import pytest

from envfarm_cli.domain_files import find_domains, linked_domains
from envfarm_cli.failure import BadInput
from envfarm_cli.proofs import Proofs, is_proved, remember_proof
from envfarm_cli.state_dir import StateDir

NAMES = ("bakery", "garage")


@pytest.fixture
def domains(tmp_path: Path) -> Path:
    for name in NAMES:
        world = tmp_path / "domains" / name / "world"
        world.mkdir(parents=True)
        (world / "policy.md").write_text(f"{name}\n")
    return tmp_path / "domains"


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    (tmp_path / "state" / "golden").mkdir(parents=True)
    return StateDir(tmp_path / "state")


def test_a_changed_file_unproves_its_domain_and_no_other(domains: Path, state: StateDir):
    for name in NAMES:
        assert not is_proved(state, domains / name)
        remember_proof(state, domains / name, Proofs())
    (domains / "garage" / "world" / "policy.md").write_text("no refunds\n")
    assert [is_proved(state, domains / name) for name in NAMES] == [True, False]


def test_a_domain_with_a_failed_task_is_not_remembered(domains: Path, state: StateDir):
    remember_proof(state, domains / "bakery", Proofs(failures=[("bakery/bread", "no golden run")]))
    assert not is_proved(state, domains / "bakery")


def test_a_chosen_domain_is_proved_as_the_folder_it_is_linked_from(
    domains: Path, state: StateDir, tmp_path: Path
):
    remember_proof(state, domains / "bakery", Proofs())
    links = linked_domains(tmp_path / "links", domains, NAMES)
    linked_domains(links, domains, ["bakery"])
    assert find_domains(links) == ["bakery"]
    assert is_proved(state, links / "bakery")


def test_a_domain_that_is_not_there_is_named_with_those_that_are(domains: Path):
    with pytest.raises(BadInput, match="no domain 'bakry'") as caught:
        find_domains(domains, ["bakry"])
    assert caught.value.hint == "domains are: bakery, garage"
