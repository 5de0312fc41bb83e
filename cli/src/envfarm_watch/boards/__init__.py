"""All screens, in the order in which they are listed."""

from envfarm_watch.boards.engine import BOARD as ENGINE
from envfarm_watch.boards.env_server import BOARD as ENV_SERVER
from envfarm_watch.boards.farm import BOARD as FARM
from envfarm_watch.boards.gateway import BOARD as GATEWAY
from envfarm_watch.boards.grader import BOARD as GRADER
from envfarm_watch.boards.learner import BOARD as LEARNER
from envfarm_watch.boards.learning import BOARD as LEARNING
from envfarm_watch.boards.throughput import BOARD as THROUGHPUT
from envfarm_watch.boards.time import BOARD as TIME

BOARDS = (THROUGHPUT, FARM, LEARNING, TIME, ENV_SERVER, GRADER, GATEWAY, ENGINE, LEARNER)
