"""Arguments as a person types them, with the values that a tool gets."""

import pytest

from envfarm_cli.authoring.typed_arguments import parse_arguments, signature
from envfarm_cli.failure import BadInput

SCHEMA = {
    "properties": {
        "order_id": {"type": "string"},
        "amount": {"type": "number"},
        "count": {"type": "integer"},
        "urgent": {"type": "boolean"},
        "reason": {"enum": ["late", "damaged"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "topic": {"$ref": "#/$defs/Topic"},
        "ids": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["order_id", "amount"],
    "$defs": {"Topic": {"enum": ["a", "b"], "type": "string"}},
}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ("order_id=O-1 amount=34.90", {"order_id": "O-1", "amount": 34.9}),
        ("order_id=12", {"order_id": "12"}),
        ('note="two words" urgent=true', {"note": "two words", "urgent": True}),
        ("note=null", {"note": None}),
        ("reason=late topic=b count=3", {"reason": "late", "topic": "b", "count": 3}),
        ('ids=\'["a","b"]\'', {"ids": ["a", "b"]}),
        ('{"order_id": "O-1", "any": [1]}', {"order_id": "O-1", "any": [1]}),
        ("order_id=a=b", {"order_id": "a=b"}),
    ],
)
def test_values_follow_the_schema(text: str, arguments: dict):
    assert parse_arguments(text, SCHEMA) == arguments


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("O-1", "is no name=value"),
        ("orders=1", "no argument 'orders'"),
        ("amount=much", "a value of type number is expected"),
        ('note="open', "No closing quotation"),
        ("{not json", "not JSON"),
        ("[1]", "is no name=value"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, said: str):
    with pytest.raises(BadInput) as caught:
        parse_arguments(text, SCHEMA)
    assert said in caught.value.message


def test_a_signature_names_types_and_what_may_be_left_out():
    assert signature("refund", SCHEMA).startswith(
        "refund(order_id: string, amount: number, count?:"
    )
    assert "reason?: late | damaged, note?: string | null, topic?: a | b" in signature("r", SCHEMA)
