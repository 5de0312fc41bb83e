"""Whole conversations in each format, against a template that knows nothing of ours."""

import json
from typing import Any

import jinja2
import pytest

from rollout_gateway.chat.formats import FORMATS, ToolLine
from rollout_gateway.chat.parse import ToolCall
from rollout_gateway.chat.render import Renderer
from rollout_gateway.chat.vocabulary import Vocabulary

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "description": "As O-1012."},
        "lines": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["order_id"],
}
TOOL = ToolLine(name="refund", description="Give money back.", input_schema_json=json.dumps(SCHEMA))
ARGUMENTS = {"order_id": "O-1012", "lines": [1, 2]}

# The published layouts, written down as plain templates of whole conversations.
COMMON = """\
<|im_start|>system
{{ policy }}{{ tools }}<|im_end|>
{% for turn in turns -%}
{% if turn.role == 'user' %}<|im_start|>user
{{ turn.text }}<|im_end|>
{% elif turn.role == 'assistant' %}<|im_start|>assistant
{{ turn.text }}<|im_end|>
{% else %}<|im_start|>user
{% for result in turn.results %}{{ '\\n' if loop.index > 1 }}<tool_response>
{{ result }}
</tool_response>{% endfor %}{{ after }}<|im_end|>
{% endif %}{% endfor %}"""
QWEN3_TOOLS = """\


# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{"type": "function", "function": {"name": "refund", "description": "Give money back.", \
"parameters": {{ schema }}}}
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>"""
XML_TOOLS_HEAD = """\


# Tools

You have access to the following functions:

<tools>
<function>
<name>refund</name>
<description>Give money back.</description>
<parameters>
<parameter>
<name>order_id</name>
<type>string</type>
<description>As O-1012.</description>
</parameter>
<parameter>
<name>lines</name>
<type>array</type>
<items>{"type": "integer"}</items>
</parameter>
<required>["order_id"]</required>
</parameters>
</function>
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:
"""
CALLS = {
    "compact": '<tool_call>\n{"name": "refund", "arguments": {"order_id": "O-1012", "lines": [1, 2]}}'
    "\n</tool_call>",
    "qwen3_xml": "<tool_call>\n<function=refund>\n<parameter=order_id>\nO-1012\n</parameter>\n"
    "<parameter=lines>\n[1, 2]\n</parameter>\n</function>\n</tool_call>",
}
CALLS["qwen3"] = CALLS["compact"]


def whole(renderer: Renderer) -> list[int]:
    """A conversation in the pieces in which a rollout makes it."""
    turns = [
        renderer.write("", "One moment.", [("refund", ARGUMENTS)]),
        renderer.write("", "Done.", []),
    ]
    ids = renderer.system("Be kind.", [TOOL]) + renderer.user("The board is broken.")
    for turn, after in zip(turns, (renderer.tool_results(['{"ok":true}', "No."]), []), strict=True):
        sampled = renderer.assistant(turn)
        ids += renderer.open_assistant() + sampled + renderer.close_assistant(sampled[-1]) + after
    return ids


@pytest.mark.parametrize("name", ["qwen3", "qwen3_xml", "compact"])
def test_a_canonical_conversation_is_the_template_id_for_id(words: Vocabulary, name: str):
    renderer = Renderer(words, name)
    system = words.decode(renderer.system("Be kind.", [TOOL]))
    tools = system.removeprefix("<|im_start|>system\nBe kind.").removesuffix("<|im_end|>\n")
    if name == "qwen3":
        assert tools == QWEN3_TOOLS.replace("{{ schema }}", json.dumps(SCHEMA))
    if name == "qwen3_xml":
        assert tools.startswith(XML_TOOLS_HEAD)
        assert tools.endswith("do not tell the user about function calls\n</IMPORTANT>")
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True)
    text = environment.from_string(COMMON).render(
        policy="Be kind.",
        tools=tools,
        after=FORMATS[name].after_results,
        turns=[
            {"role": "user", "text": "The board is broken."},
            {"role": "assistant", "text": "One moment.\n" + CALLS[name]},
            {"role": "tool", "results": ['{"ok":true}', "No."]},
            {"role": "assistant", "text": "Done."},
        ],
    )
    ids = whole(renderer)
    assert words.decode(ids) == text
    # The whole text, split at the control tokens and marks, gives the same ids.
    assert words._tokenizer.encode(text, add_special_tokens=False).ids == ids


@pytest.mark.parametrize("name", list(FORMATS))
def test_a_written_turn_is_read_back(words: Vocabulary, name: str):
    renderer = Renderer(words, name)
    turn = renderer.write("Broken, so refund.", "One moment.", [("refund", ARGUMENTS)] * 2)
    reply = renderer.read(renderer.assistant(turn), {"refund": SCHEMA})
    assert (reply.reasoning, reply.text) == ("Broken, so refund.", "One moment.")
    assert [type(call) for call in reply.calls] == [ToolCall, ToolCall]
    call = reply.calls[0]
    assert isinstance(call, ToolCall) and json.loads(call.arguments_json) == ARGUMENTS


def test_formats_reasoning_and_revisions_have_hashes_of_their_own(words: Vocabulary):
    hashes = {Renderer(words, name, how).hash for name in FORMATS for how in ("keep", "strip")}
    assert len(hashes) == 6


def test_reasoning_ends_with_its_closing_mark(words: Vocabulary):
    renderer = Renderer(words)
    ids = renderer.assistant("<think>\nHm.\n</think>\n\nHello.")
    length = renderer.reasoning_length(ids)
    assert words.decode(ids[:length]) == "<think>\nHm.\n</think>"
    assert renderer.reasoning_length(renderer.assistant("Hello.")) == 0
    # A tokenizer that has no token for the mark, or a policy that spelled it.
    spelled = words.plain("Hm.</think>Hello")
    renderer._words = _WithoutMarks(words)  # pyright: ignore
    assert words.decode(spelled[: renderer.reasoning_length(spelled)]) == "Hm.</think>"


class _WithoutMarks:
    def __init__(self, words: Vocabulary):
        self.plain, self.decode = words.plain, words.decode

    def mark(self, text: str) -> list[int]:
        return self.plain(text)
