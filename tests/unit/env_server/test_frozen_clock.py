"""The clock inside a server of Python stands still, whichever way the program asks."""

import json
import subprocess
import sys
from pathlib import Path

import env_server

FOREIGN = Path(env_server.__file__).parent / "foreign"
PROGRAM = """
import copy, datetime, json, time
from datetime import date, datetime as moment
began = time.monotonic()
told = {
    "time": [time.time(), time.time_ns(), time.clock_gettime(time.CLOCK_REALTIME)],
    "structs": [time.gmtime()[:6], time.localtime()[:6], time.gmtime(0)[:3]],
    "texts": [time.strftime("%Y-%m-%d"), time.ctime(), time.asctime(), time.ctime(0)],
    "now": [moment.now().isoformat(), moment.utcnow().isoformat(), moment.today().isoformat()],
    "aware": moment.now(datetime.timezone.utc).isoformat(),
    "today": [date.today().isoformat(), datetime.date.today().isoformat()],
    "kinds": [
        isinstance(moment.now(), date), isinstance(date.today(), moment), issubclass(moment, date),
        type(moment.now() + datetime.timedelta(days=1)) is moment, copy.deepcopy(moment.now()) == moment.now(),
        (moment(2025, 10, 2) - moment.now()).total_seconds() == 39600 - 0.25,
    ],
    "other": [moment(2020, 5, 17).isoformat(), moment.fromisoformat("2020-05-17").day,
              moment.strptime("17.05.20", "%d.%m.%y").year, repr(date(2020, 5, 17))],
}
while time.monotonic() == began:
    pass
print(json.dumps(told))
"""


def test_every_question_for_the_time_of_day_gets_the_same_answer(tmp_path: Path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    found = subprocess.run(
        [sys.executable, FOREIGN / "warm_program.py", "-1", "2025-10-01T13:00:00.25+00:00", path],
        env={"TZ": "UTC", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    told = json.loads(found.stdout)
    seconds = 1759323600.25
    assert told["time"] == [seconds, 1759323600250000000, seconds]
    day = [2025, 10, 1, 13, 0, 0]
    assert told["structs"] == [day, day, [1970, 1, 1]]
    assert told["texts"] == [
        *("2025-10-01", "Wed Oct  1 13:00:00 2025", "Wed Oct  1 13:00:00 2025"),
        "Thu Jan  1 00:00:00 1970",
    ]
    assert told["now"] == ["2025-10-01T13:00:00.250000"] * 3
    assert told["aware"] == "2025-10-01T13:00:00.250000+00:00"
    assert told["today"] == ["2025-10-01"] * 2
    assert told["kinds"] == [True, False, True, True, True, True]
    assert told["other"] == ["2020-05-17T00:00:00", 17, 2020, "datetime.date(2020, 5, 17)"]
