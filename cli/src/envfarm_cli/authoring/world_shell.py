"""A prompt on a fresh episode: SQL on its database, and its tools through the agent's MCP door."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from envfarm.v1 import task_pb2
from envfarm_common.binaries import find_postgres
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from rich.table import Table

from envfarm_cli import loops, settings
from envfarm_cli.authoring.examiner import Examiner, Played, schema_of
from envfarm_cli.authoring.inspector import Inspector, official_command
from envfarm_cli.authoring.prompt import Prompt
from envfarm_cli.authoring.sql_session import Answer, SqlSession
from envfarm_cli.authoring.typed_arguments import parse_arguments, signature
from envfarm_cli.failure import BadInput
from envfarm_cli.output import Output, plain

HELP = """\
SQL;                        run a statement; it may go over several lines
\\d [TABLE]                  the tables, or the columns of one
\\tools                      the tools, asked for over MCP
\\call TOOL name=value ...   call a tool over MCP, every frame shown
\\diff                       what has changed since the episode was opened
\\agent, \\owner              go on with the rights of the agent, or with all of them
\\mcp                        address and token of the MCP endpoint, for another client
\\psql                       go on in psql; \\q there comes back here. Without psql: how to connect
\\fresh                      throw the episode away and take a fresh one
\\q                          leave"""


@dataclass(slots=True)
class WorldShell:
    """One session; `run` reads lines until `\\q` or the end of the input."""

    out: Output
    runner: loops.Runner
    examining: Examiner
    task: task_pb2.Task
    conninfo: str
    failures: int = 0
    """Statements and commands that were refused."""
    lines: int = 0
    _opening: Any = None
    _played: Played | None = None
    _session: SqlSession | None = None
    _statement: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Episode and session are closed at the end, however it comes."""
        try:
            self._fresh("")
            self.out.say("[dim]SQL ends with ; and \\? lists the rest[/dim]")
            prompt = Prompt(self.out.console, f"{self.task.world.world_id}> ")
            while (line := prompt.line()) is not None and line != "\\q":
                self._take(line)
        finally:
            self._close()

    def _take(self, line: str) -> None:
        if not line:
            return
        self.runner.run(self._episode.renew())
        try:
            if line.startswith("\\") and not self._statement:
                self.lines += 1
                self._command(line)
            else:
                self._statement.append(line)
                if line.endswith(";"):
                    self.lines += 1
                    statement = "\n".join(self._statement)
                    self._statement.clear()
                    self._show(self._sql.run(statement))
        except psycopg.Error as error:
            self._refused(error.diag.message_primary or str(error))
        except BadInput as error:
            self._refused(f"{error.message} — {error.hint}" if error.hint else error.message)

    def _command(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        commands: dict[str, Callable[[str], None]] = {
            "\\?": lambda _: self.out.say(plain(HELP)),
            "\\d": self._describe,
            "\\tools": self._tools,
            "\\call": self._call,
            "\\diff": self._diff,
            "\\agent": lambda _: self._become(agent=True),
            "\\owner": lambda _: self._become(agent=False),
            "\\mcp": self._mcp,
            "\\psql": self._psql,
            "\\fresh": self._fresh,
        }
        if word not in commands:
            raise BadInput(f"there is no command {word}", hint="\\? lists them")
        commands[word](rest.strip())

    def _describe(self, table: str) -> None:
        if not table:
            shown = Table("table", "rows")
            for name, rows in self._sql.tables():
                shown.add_row(plain(name), str(rows))
        else:
            columns = self._sql.columns(table)
            if not columns:
                raise BadInput(f"there is no table {table!r}", hint="\\d lists them")
            shown = Table("column", "type", "null", "default")
            for name, kind, not_null, default in columns:
                shown.add_row(plain(name), plain(kind), "no" if not_null else "yes", plain(default))
        self.out.show(shown)

    def _tools(self, _: str) -> None:
        found = self._inspector().ask("tools/list")
        for tool in found.get("tools", []):
            self.out.say(f"[b]{plain(signature(tool['name'], tool['inputSchema']))}[/b]")
            self.out.say(f"    {plain(tool.get('description', ''))}")

    def _call(self, rest: str) -> None:
        name, _, typed = rest.partition(" ")
        tools = {tool.name: tool for tool in self.task.tools}
        if name not in tools:
            raise BadInput(f"there is no tool {name!r}", hint="\\tools lists them")
        arguments = parse_arguments(typed, schema_of(tools[name]))
        found = self._inspector().ask("tools/call", name=name, arguments=arguments)
        texts = [part.get("text", "") for part in found.get("content", [])]
        if found.get("isError") or "error" in found:
            self._refused(" ".join(texts) or json.dumps(found.get("error")))
        else:
            self.out.say(f"[green]{plain(' '.join(texts))}[/green]")

    def _diff(self, _: str) -> None:
        changes = self._sql.changes()
        for table, sign, row in changes:
            colour = "red" if sign == "-" else "green"
            self.out.say(f"[{colour}]{sign} {plain(table)} {plain(row)}[/{colour}]")
        if not changes:
            self.out.say("nothing has changed")

    def _become(self, *, agent: bool) -> None:
        self._sql.become(agent=agent)
        self.out.say("SQL runs as the agent" if agent else "SQL runs with all rights")

    def _mcp(self, _: str) -> None:
        episode = self._episode.episode
        self.out.say(f"url    {plain(episode.mcp_url)}")
        self.out.say(f"token  {plain(episode.agent_token)}")
        self.out.say(f"[dim]{plain(official_command(episode.mcp_url, episode.agent_token))}[/dim]")

    def _psql(self, _: str) -> None:
        program = find_postgres().path.with_name("psql")
        found = program if program.exists() else shutil.which("psql", path=settings.search_path())
        if not found:
            self.out.say("there is no psql on this machine; any other client can connect with")
            self.out.say(plain(self._sql.conninfo))
            return
        facts = {name: str(v) for name, v in conninfo_to_dict(self._sql.conninfo).items()}
        # In a file, as a command line can be read by everybody on the machine.
        with tempfile.NamedTemporaryFile("w", prefix="envfarm-pgpass-") as file:
            file.write(f"*:*:*:*:{facts.pop('password', '')}\n")
            file.flush()
            subprocess.run(
                [found, "-X", make_conninfo("", passfile=file.name, **facts)], check=False
            )

    def _fresh(self, _: str) -> None:
        self._close()
        self._opening = self.examining.episode(self.task)
        self._played = self.runner.run(self._opening.__aenter__())
        self._session = SqlSession(self.conninfo)
        initial = self._played.episode.initial_state_hash[:12]
        self.out.say(f"fresh episode of {plain(self.task.ref.task_id)}, state {initial}")

    def _close(self) -> None:
        session, self._session = self._session, None
        opening, self._opening = self._opening, None
        self._played = None
        if session:
            session.close()
        if opening:
            self.runner.run(opening.__aexit__(None, None, None))

    def _inspector(self) -> Inspector:
        episode = self._episode.episode

        def show(direction: str, frame: str) -> None:
            self.out.say(f"[dim]{direction} {plain(frame)}[/dim]")

        return Inspector(episode.mcp_url, episode.agent_token, show)

    def _show(self, answer: Answer) -> None:
        if answer.columns:
            table = Table(*map(plain, answer.columns))
            for row in answer.rows:
                table.add_row(*("∅" if value is None else plain(value) for value in row))
            self.out.show(table)
        left = f", {answer.left_out} more rows" if answer.left_out else ""
        self.out.say(f"[dim]{plain(answer.status)}{left}[/dim]")

    def _refused(self, text: str) -> None:
        self.failures += 1
        self.out.say(f"[red]{plain(text)}[/red]")

    @property
    def _episode(self) -> Played:
        assert self._played
        return self._played

    @property
    def _sql(self) -> SqlSession:
        assert self._session
        return self._session
