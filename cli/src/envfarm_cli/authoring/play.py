"""A person as the agent of one task: the agent's tools, the simulated user, the grader's verdict."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from envfarm.v1 import task_pb2

from envfarm_cli import loops
from envfarm_cli.authoring.examiner import Examiner, Played, examiner, schema_of
from envfarm_cli.authoring.prompt import Prompt
from envfarm_cli.authoring.server_apart import ServerApart
from envfarm_cli.authoring.typed_arguments import parse_arguments, signature
from envfarm_cli.domain_files import TaskFiles
from envfarm_cli.failure import BadInput
from envfarm_cli.output import Output, plain
from grader.grading import Attempt, Graded
from grader.verdict_wire import to_json, to_proto
from rollout_gateway.user import User, Users

HELP = """\
TOOL name=value ...   call a tool; text with spaces in quotes, or all arguments as one JSON object
say TEXT              answer the person
done TEXT             say the last words and end the attempt; the grader looks at them
tools [TOOL]          the tools, or what one of them says about itself
policy                the policy again
limits                what was used of the limits
quit                  leave without a verdict"""


@dataclass(slots=True)
class Ended:
    """A finished attempt."""

    outcome: str = "quit"
    """done, user_left, limit, or quit."""
    turns: int = 0
    tool_calls: int = 0
    refusals: int = 0
    tool_seconds: float = 0.0
    last_words: str = ""
    verdict: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Player:
    """Where the person sits."""

    out: Output

    def prompt(self) -> Prompt:
        return Prompt(self.out.console, "agent> ")


@dataclass(slots=True)
class _Table:
    """One attempt in the making."""

    out: Output
    task: task_pb2.Task
    user: User
    played: Played
    runner: loops.Runner
    ended: Ended = field(default_factory=Ended)

    def answer(self, line: str) -> bool:
        """Do what a line says; whether the attempt goes on. BadInput leaves it as it was."""
        word, _, rest = line.partition(" ")
        commands: dict[str, Callable[[str], bool]] = {
            "say": self._say,
            "done": self._done,
            "tools": self._tools,
            "policy": self._policy,
            "limits": self._limits,
            "help": self._help,
        }
        if word in commands:
            return commands[word](rest.strip())
        tools = {tool.name: tool for tool in self.task.tools}
        if word not in tools:
            raise BadInput(
                f"there is no tool or command {word!r}",
                hint="`say TEXT` answers the person, `tools` lists the tools, `help` the rest",
            )
        return self._call(tools[word], rest)

    def _call(self, tool: task_pb2.ToolSpec, rest: str) -> bool:
        arguments = parse_arguments(rest, schema_of(tool))
        result = self.runner.run(self.played.call(tool.name, arguments))
        self.ended.turns += 1
        self.ended.tool_calls += 1
        self.ended.refusals += result.is_error
        self.ended.tool_seconds += result.seconds
        label, colour = ("refused", "red") if result.is_error else ("answer", "green")
        self.out.say(f"[{colour}]{label:>8}[/{colour}]  {plain(result.content)}")
        return self._within_limits()

    def _say(self, text: str) -> bool:
        if not text:
            raise BadInput("say what?", hint="write the text behind it: say It is done.")
        self.ended.turns += 1
        self.ended.last_words = text
        said = self.runner.run(self.user.answer(text))
        if said is None:
            self.out.say("[dim]the person has nothing more to say and leaves[/dim]")
            self.ended.outcome = "user_left"
            return False
        self.out.say(f"[cyan]{'person':>8}[/cyan]  {plain(said)}")
        return self._within_limits()

    def _done(self, text: str) -> bool:
        self.ended.last_words = text or self.ended.last_words
        self.ended.outcome = "done"
        return False

    def _within_limits(self) -> bool:
        limits, ended = self.task.limits, self.ended
        over = [
            name
            for name, used, most in (
                ("turns", ended.turns, limits.max_turns),
                ("tool calls", ended.tool_calls, limits.max_tool_calls),
                ("seconds in tools", ended.tool_seconds, limits.max_tool_seconds),
            )
            if used >= most
        ]
        if over:
            self.out.say(
                f"[yellow]the limit of {over[0]} is reached; the attempt ends here[/yellow]"
            )
            self.ended.outcome = "limit"
        return not over

    def _tools(self, name: str) -> bool:
        found = [tool for tool in self.task.tools if name in ("", tool.name)]
        if not found:
            raise BadInput(f"there is no tool {name!r}", hint="`tools` lists them")
        for tool in found:
            is_read = tool.access == task_pb2.TOOL_ACCESS_READ
            mark = "[dim]reads [/dim]" if is_read else "[yellow]writes[/yellow]"
            self.out.say(f"{mark} {plain(signature(tool.name, schema_of(tool)))}")
            if name:
                self.out.say(plain(tool.description))
        return True

    def _policy(self, _: str) -> bool:
        self.out.say(plain(self.task.policy.strip()))
        return True

    def _limits(self, _: str) -> bool:
        limits, ended = self.task.limits, self.ended
        self.out.say(
            f"{ended.turns} of {limits.max_turns} turns, {ended.tool_calls} of"
            f" {limits.max_tool_calls} tool calls, {ended.tool_seconds:.1f} of"
            f" {limits.max_tool_seconds:g} s in tools; tokens are not counted here"
        )
        return True

    def _help(self, _: str) -> bool:
        self.out.say(plain(HELP))
        return True


def play_task(server: ServerApart, files: TaskFiles, player: Player, runner: loops.Runner) -> Ended:
    """Read lines until the attempt ends, then grade it; `quit` and the end of a pipe give no verdict."""
    user = Users(server.domains).user(files.task_id)
    making = examiner(server)
    examining = runner.run(making.__aenter__())
    try:
        task = runner.run(examining.tasks())[files.task_id]
        runner.run(examining.golden(task))
        opening = examining.episode(task)
        played = runner.run(opening.__aenter__())
        try:
            table = _Table(player.out, task, user, played, runner)
            _greet(table)
            if _attempt(table, player.prompt()):
                table.ended.verdict = runner.run(_judge(examining, table))
            return table.ended
        finally:
            runner.run(opening.__aexit__(None, None, None))
    finally:
        runner.run(making.__aexit__(None, None, None))


def _greet(table: _Table) -> None:
    out, task = table.out, table.task
    out.say(plain(task.policy.strip()))
    out.say("")
    table.answer("tools")
    out.say("")
    out.say("[dim]You are the agent. `help` says what you can write.[/dim]")
    out.say(f"[cyan]{'person':>8}[/cyan]  {plain(task.opening.strip())}")


def _attempt(table: _Table, prompt: Prompt) -> bool:
    """Whether the attempt came to an end that is graded."""
    while (line := prompt.line()) is not None and line != "quit":
        if not line:
            continue
        table.runner.run(table.played.renew())
        try:
            if not table.answer(line):
                return True
        except BadInput as error:
            hint = f" — {error.hint}" if error.hint else ""
            table.out.say(f"[yellow]{plain(error.message + hint)}[/yellow]")
    table.out.say("[dim]left without a verdict[/dim]")
    return False


async def _judge(examining: Examiner, table: _Table) -> dict[str, Any]:
    await table.played.seal()
    reply = table.ended.last_words
    graded: Graded = await examining.grade(table.task, table.played, reply)
    ref = table.task.ref
    attempt = Attempt(task_id=ref.task_id, task_hash=ref.task_hash, final_reply=reply)
    return to_json(to_proto("play", attempt, graded, input="episode", evidence_hash=""))
