"""Makes the clock of a Python process stand still at one moment.

It must run before anything else is imported: who has `from time import time` already keeps the real one.
Frozen are the time of day in `time` and `datetime`. What goes on: monotonic clocks, which event loops
and deadlines need, C code that asks the kernel itself (TLS, file times), and programs that are started.
"""

import datetime
import time

_REAL_DATE = datetime.date
_REAL_DATETIME = datetime.datetime
_UTC = datetime.timezone(datetime.timedelta(0))
_CLOCK_REALTIME = getattr(time, "CLOCK_REALTIME", None)


class _DateKind(type):
    """Dates that C code made are instances, too."""

    def __instancecheck__(cls, value):
        if cls is FrozenDate:
            return isinstance(value, _REAL_DATE)
        return super().__instancecheck__(value)

    def __subclasscheck__(cls, other):
        if cls is FrozenDate:
            return issubclass(other, _REAL_DATE)
        return super().__subclasscheck__(other)


class _DatetimeKind(type):
    def __instancecheck__(cls, value):
        if cls is FrozenDatetime:
            return isinstance(value, _REAL_DATETIME)
        return super().__instancecheck__(value)

    def __subclasscheck__(cls, other):
        if cls is FrozenDatetime:
            return issubclass(other, _REAL_DATETIME)
        return super().__subclasscheck__(other)


class FrozenDate(_REAL_DATE, metaclass=_DateKind):
    def __repr__(self):
        return f"datetime.{super().__repr__()}"

    @classmethod
    def today(cls):
        return cls.fromtimestamp(time.time())


class FrozenDatetime(_REAL_DATETIME, metaclass=_DatetimeKind):
    def __repr__(self):
        return f"datetime.{super().__repr__()}"

    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def today(cls):
        return cls.fromtimestamp(time.time())

    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(time.time(), _UTC).replace(tzinfo=None)


def freeze(moment):
    """From now on it is `moment`, ISO 8601 with a zone, in this process and all that it forks."""
    instant = _REAL_DATETIME.fromisoformat(moment.replace("Z", "+00:00"))
    seconds = instant.timestamp()
    nanoseconds = int(seconds) * 10**9 + instant.microsecond * 1000
    real = {name: getattr(time, name) for name in _WITH_SECONDS}

    def asked(name, at):
        return lambda *given: real[name](*given[:at], *(given[at:] or (seconds,)))

    time.time = lambda: seconds
    time.time_ns = lambda: nanoseconds
    for name in ("gmtime", "localtime", "ctime"):
        setattr(time, name, asked(name, 0))
    gmtime, localtime = time.gmtime, time.localtime
    time.asctime = lambda *given: real["asctime"](*(given or (localtime(),)))
    time.strftime = lambda form, *given: real["strftime"](form, *(given or (localtime(),)))
    real_clock, real_clock_ns = time.clock_gettime, time.clock_gettime_ns
    time.clock_gettime = lambda clock: seconds if clock == _CLOCK_REALTIME else real_clock(clock)
    time.clock_gettime_ns = lambda clock: (
        nanoseconds if clock == _CLOCK_REALTIME else real_clock_ns(clock)
    )
    for kind, name in ((FrozenDate, "date"), (FrozenDatetime, "datetime")):
        # Libraries look at names, and copies are made by them.
        kind.__name__ = kind.__qualname__ = name
        kind.__module__ = "datetime"
        setattr(datetime, name, kind)
    assert gmtime().tm_year == instant.astimezone(_UTC).year


_WITH_SECONDS = ("gmtime", "localtime", "ctime", "asctime", "strftime")
