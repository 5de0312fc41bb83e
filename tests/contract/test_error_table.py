"""Class, code, gRPC status and HTTP status agree in both directions."""

import grpc
import pytest
from envfarm import errors
from envfarm.errors import BY_CODE, WIRE, Code, EnvfarmError

ABSTRACT = {"RequestError", "EpisodeError", "PolicyError", "GradingError", "LearnerError"}


def leaves(cls: type[EnvfarmError]) -> set[type[EnvfarmError]]:
    found = {cls} if cls.__name__ not in ABSTRACT and cls is not EnvfarmError else set()
    for child in cls.__subclasses__():
        found |= leaves(child)
    return found


def test_every_class_has_a_wire_form_and_every_code_a_class():
    assert leaves(EnvfarmError) == set(WIRE)
    assert set(BY_CODE) == {
        value for value in Code.values() if value != Code.ERROR_CODE_UNSPECIFIED
    }
    assert len(BY_CODE) == len(WIRE)


@pytest.mark.parametrize("cls", sorted(WIRE, key=lambda cls: cls.__name__))
def test_an_error_survives_the_wire(cls: type[EnvfarmError]):
    there = cls("what and where", hint="what next", retry_after_seconds=1.5)
    back = errors.from_detail(errors.to_detail(there))
    assert type(back) is cls
    assert (back.message, back.hint, back.retry_after_seconds) == (
        "what and where",
        "what next",
        1.5,
    )


@pytest.mark.parametrize("cls", sorted(WIRE, key=lambda cls: cls.__name__))
def test_statuses_are_failures(cls: type[EnvfarmError]):
    assert WIRE[cls].grpc is not grpc.StatusCode.OK
    assert 400 <= WIRE[cls].http <= 599


def test_the_docstring_draws_every_class():
    assert errors.__doc__ is not None
    missing = [cls.__name__ for cls in WIRE if cls.__name__ not in errors.__doc__]
    assert [name for name in missing if name != "StreamError"] == []


def test_a_code_of_a_newer_peer_becomes_an_internal_error():
    detail = errors.to_detail(errors.ConfigError("text"))
    detail.code = 4711  # pyright: ignore[reportAttributeAccessIssue]
    assert type(errors.from_detail(detail)) is errors.InternalError


def test_a_boundary_attributes_foreign_errors_and_lets_ours_pass():
    with (
        pytest.raises(errors.DatabaseError, match="clone: OSError: disk full"),
        errors.boundary(errors.DatabaseError, "clone", OSError),
    ):
        raise OSError("disk full")
    with (
        pytest.raises(errors.LeaseExpired),
        errors.boundary(errors.DatabaseError, "clone", OSError),
    ):
        raise errors.LeaseExpired("gone")
