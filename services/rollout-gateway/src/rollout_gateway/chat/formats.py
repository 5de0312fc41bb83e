"""The chat formats: how tools are shown to the policy, how it writes calls, how results come back.

compact     one line per tool, calls as JSON in tags; short prompts for small models
qwen3       Qwen3's own: tools as JSON in <tools>, calls as JSON in tags
qwen3_xml   Qwen3-Coder's and Qwen3.5's: tools as <function> blocks, calls as function and parameter tags
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollout_gateway.chat.calls import ReadCall
from rollout_gateway.chat.calls_json import read_json_call, write_json_call
from rollout_gateway.chat.calls_xml import read_xml_call, write_xml_call


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolLine:
    """A tool as the system prompt names it."""

    name: str
    description: str
    input_schema_json: str

    @property
    def schema(self) -> dict[str, Any]:
        return json.loads(self.input_schema_json or "{}")


Piece = tuple[str, bool]
"""Text, and whether it is one of the format's own marks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatFormat:
    name: str
    revision: int
    """Raised with any change of what the format renders or reads."""
    tools: Callable[[Sequence[ToolLine]], list[Piece]]
    """What follows the policy text in the system turn."""
    read_call: ReadCall
    write_call: Callable[[str, dict[str, Any]], str]
    after_results: str
    """Between the last </tool_response> and the end of the turn."""


def tool_line(tool: ToolLine) -> str:
    """`find_order(order_id: string, note?: string): What it does.` on one line."""
    required = set(tool.schema.get("required", ()))
    arguments = ", ".join(
        f"{name}{'' if name in required else '?'}: {_type(part)}"
        for name, part in tool.schema.get("properties", {}).items()
    )
    return f"{tool.name}({arguments}): {' '.join(tool.description.split())}"


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "anyOf" in schema:
        parts = [_type(part) for part in schema["anyOf"] if part.get("type") != "null"]
        return "|".join(dict.fromkeys(parts))
    if schema.get("type") == "array":
        return f"[{_type(schema.get('items', {}))}]"
    return str(schema.get("type", "any"))


def _compact_tools(tools: Sequence[ToolLine]) -> list[Piece]:
    lines = "\n".join(map(tool_line, tools))
    return [
        (f"\n\n# Tools\n{lines}\nTo call one, write ", False),
        ("<tool_call>", True),
        ('{"name": "…", "arguments": {…}}', False),
        ("</tool_call>", True),
        (". Its answer follows. Write plain text to talk to the user.", False),
    ]


def _qwen3_tools(tools: Sequence[ToolLine]) -> list[Piece]:
    lines = "".join(
        "\n"
        + json.dumps(
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            },
            ensure_ascii=False,
        )
        for tool in tools
    )
    before = (
        "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
        f"{lines}\n</tools>\n\nFor each function call, return a json object with function name and "
        "arguments within "
    )
    return [
        (before, False),
        ("<tool_call>", True),
        ("</tool_call>", True),
        (" XML tags:\n", False),
        ("<tool_call>", True),
        ('\n{"name": <function-name>, "arguments": <args-json-object>}\n', False),
        ("</tool_call>", True),
    ]


XML_RULES = (
    "\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner "
    "<function=...></function> block must be nested within ",
    " XML tags\n- Required parameters MUST be specified\n- You may provide optional reasoning for "
    "your function call in natural language BEFORE the function call, but NOT after\n- If there is no "
    "function call available, answer the question like normal with your current knowledge and do not "
    "tell the user about function calls\n</IMPORTANT>",
)


def _xml_tools(tools: Sequence[ToolLine]) -> list[Piece]:
    blocks = "".join(map(_function_block, tools))
    return [
        (
            f"\n\n# Tools\n\nYou have access to the following functions:\n\n<tools>{blocks}\n</tools>"
            "\n\nIf you choose to call a function ONLY reply in the following format with NO suffix:"
            "\n\n",
            False,
        ),
        ("<tool_call>", True),
        (
            "\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n"
            "</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second "
            "parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n",
            False,
        ),
        ("</tool_call>", True),
        (XML_RULES[0], False),
        ("<tool_call>", True),
        ("</tool_call>", True),
        (XML_RULES[1], False),
    ]


def _function_block(tool: ToolLine) -> str:
    parameters = "".join(
        _parameter_block(name, part) for name, part in tool.schema.get("properties", {}).items()
    )
    rest = _extra(tool.schema, ("type", "properties"))
    return (
        f"\n<function>\n<name>{tool.name}</name>\n<description>{tool.description.strip()}"
        f"</description>\n<parameters>{parameters}{rest}\n</parameters>\n</function>"
    )


def _parameter_block(name: str, schema: Mapping[str, Any]) -> str:
    block = f"\n<parameter>\n<name>{name}</name>"
    if "type" in schema:
        block += f"\n<type>{schema['type']}</type>"
    if "description" in schema:
        block += f"\n<description>{str(schema['description']).strip()}</description>"
    return f"{block}{_extra(schema, ('name', 'type', 'description'))}\n</parameter>"


def _extra(schema: Mapping[str, Any], known: tuple[str, ...]) -> str:
    return "".join(
        f"\n<{key}>{_text(value)}</{key}>" for key, value in schema.items() if key not in known
    )


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


FORMATS = {
    made.name: made
    for made in (
        ChatFormat(
            name="compact",
            revision=2,
            tools=_compact_tools,
            read_call=read_json_call,
            write_call=write_json_call,
            after_results="",
        ),
        ChatFormat(
            name="qwen3",
            revision=1,
            tools=_qwen3_tools,
            read_call=read_json_call,
            write_call=write_json_call,
            after_results="",
        ),
        ChatFormat(
            name="qwen3_xml",
            revision=1,
            tools=_xml_tools,
            read_call=read_xml_call,
            write_call=write_xml_call,
            after_results="\n",
        ),
    )
}
