"""The OpenAPI document of API v1, made from the bodies in `ask.py` and the messages in `proto/`.

`python -m grader.openapi` prints it; docs/grader-openapi.json is that print, and a test compares them.
"""

import json
import sys
from typing import Any

from envfarm.errors import WIRE, Code
from envfarm.v1 import verdict_pb2
from fastapi import FastAPI
from google.protobuf.descriptor import FieldDescriptor
from pydantic.json_schema import models_json_schema

from grader.ask import BatchRequest, GradeRequest, RegradeRequest

_REF = "#/components/schemas/{model}"
_NUMBERS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)
_PROBLEMS = {
    401: "No bearer token, or one that is not known here",
    403: "The token has not this scope, or is not for this task",
    404: "No such episode, verdict or task",
    409: "Not in a state that allows it, or no checks for the task",
    410: "The episode's lease ran out",
    413: "The body is too large",
    422: "The request cannot be served as it is; `detail` names the field",
    429: "Too much at once; try again after Retry-After seconds",
    500: "A fault on the grader's side: evidence, settings, or ours",
    502: "The env-server or the database is out of reach; nothing was decided, send it again",
    503: "The env-server drains or its database is gone; nothing was decided",
    504: "A deadline passed; nothing was decided",
}
_TEXTS: dict[str, tuple[str, str, str]] = {
    "/v1/grade": (
        "Grade one attempt",
        "By episode, by DSN or by the tables themselves: the verdict is the same. The same "
        "`request_id` gets the same verdict, and is refused with another body.",
        "GradeRequest",
    ),
    "/v1/grade/batch": (
        "Grade many attempts",
        "One result for each request, in order: a verdict, or the problem document that the "
        "request would have got alone.",
        "BatchRequest",
    ),
    "/v1/regrade": (
        "Grade kept evidence again",
        "By current, original or other kept checks. No episode, no database and no model is asked. "
        "Equal checks, grader and evidence give the kept verdict, byte for byte.",
        "RegradeRequest",
    ),
    "/v1/verdicts/{verdict_id}": ("A verdict that was given", "As it was answered then.", ""),
    "/v1/tasks/{task_id}/schema": (
        "What a state must hold",
        "Tables, columns, types and keys of the task's world, and the task's hash.",
        "",
    ),
}
_OPERATIONS = {
    "/v1/grade": "grade",
    "/v1/grade/batch": "gradeBatch",
    "/v1/regrade": "regrade",
    "/v1/verdicts/{verdict_id}": "getVerdict",
    "/v1/tasks/{task_id}/schema": "getTaskSchema",
}
_ANSWERS = {"/v1/grade/batch": "BatchAnswer", "/v1/tasks/{task_id}/schema": "TaskSchema"}


def describe(app: FastAPI) -> None:
    """Let `app` serve this document at /openapi.json and /docs."""
    app.openapi = document  # pyright: ignore[reportAttributeAccessIssue]


def document() -> dict[str, Any]:
    """The whole document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "envfarm grader",
            "version": "1",
            "description": "Verdicts from final database states.",
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": {path: _path(path) for path in _TEXTS},
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _path(path: str) -> dict[str, Any]:
    summary, description, body = _TEXTS[path]
    answer = _ANSWERS.get(path, "Verdict")
    operation: dict[str, Any] = {
        "operationId": _OPERATIONS[path],
        "summary": summary,
        "description": description,
        "responses": {"200": _content("application/json", answer, "The answer")}
        | {
            str(status): _content("application/problem+json", "Problem", text)
            for status, text in _PROBLEMS.items()
        },
    }
    if body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": _REF.format(model=body)}}},
        }
        return {"post": operation}
    name = path[path.index("{") + 1 : path.index("}")]
    operation["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    ]
    return {"get": operation}


def _content(media: str, schema: str, description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {media: {"schema": {"$ref": _REF.format(model=schema)}}},
    }


def _schemas() -> dict[str, Any]:
    bodies = [GradeRequest, BatchRequest, RegradeRequest]
    _, made = models_json_schema([(model, "validation") for model in bodies], ref_template=_REF)
    found: dict[str, Any] = dict(made["$defs"])
    _add_message(verdict_pb2.Verdict.DESCRIPTOR, found)
    found["Verdict"]["required"] = sorted(set(found["Verdict"]["properties"]) - {"reward", "world"})
    text, number = {"type": "string"}, {"type": "integer"}
    found["Problem"] = {
        "type": "object",
        "description": "RFC 9457",
        "properties": {
            "type": text,
            "title": text,
            "status": number,
            "detail": text,
            "code": {"type": "string", "enum": sorted(Code.Name(w.code) for w in WIRE.values())},  # pyright: ignore[reportArgumentType]
            "hint": text,
            "retryable": {"type": "boolean"},
        },
        "required": ["type", "title", "status", "detail", "code", "hint", "retryable"],
    }
    found["BatchAnswer"] = _object(
        results={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "verdict": {"$ref": _REF.format(model="Verdict")},
                    "problem": {"$ref": _REF.format(model="Problem")},
                },
            },
        }
    )
    column = _object(type=text, nullable={"type": "boolean"})
    table = _object(
        columns={"type": "object", "additionalProperties": column},
        key={"type": "array", "items": text},
        initial_rows=number,
    )
    found["TaskSchema"] = _object(
        task_id=text,
        task_hash=text,
        world_id=text,
        world_hash=text,
        world_now=text,
        initial_state_hash=text,
        tables={"type": "object", "additionalProperties": table},
    )
    return dict(sorted(found.items()))


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": sorted(properties)}


def _add_message(message: Any, found: dict[str, Any]) -> None:
    """The JSON schema of a message's descriptor and of those it holds."""
    found[message.name] = {
        "type": "object",
        "properties": {field.name: _field(field, found) for field in message.fields},
    }


def _field(field: FieldDescriptor, found: dict[str, Any]) -> dict[str, Any]:
    if field.message_type:
        if field.message_type.name not in found:
            _add_message(field.message_type, found)
        schema: dict[str, Any] = {"$ref": _REF.format(model=field.message_type.name)}
    elif field.enum_type:
        schema = {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    elif field.cpp_type in _NUMBERS:
        schema = {"type": "number"}
    elif field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        schema = {"type": "boolean"}
    else:
        schema = {"type": "string"}
    return {"type": "array", "items": schema} if field.is_repeated else schema


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n")
