"""Strict parsing of requests: unknown fields are errors, and values of another type are not converted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, ClassVar, NoReturn

from django.core.exceptions import RequestDataTooBig
from django.core.validators import ProhibitNullCharactersValidator
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ParseError, ValidationError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from api.openapi import patterns
from headroom_edge.algorithms.base import shown
from headroom_edge.check import DIMENSIONS_MAX, is_dimension
from headroom_edge.json_text import RepeatedKeyError, distinct, encoding_fault
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.plan.subject import DIMENSION, RESERVED
from quotas.errors import LONGEST_REASON
from quotas.policies import schema
from quotas.policies.problems import ENDLESS, WITHIN, is_endless, is_fit, is_within, unknown_field

MOST_BYTES = 2 * 1_048_576
LONGEST_VALUE = 1_000  # of a subject's dimension
HIGHEST = "The highest priority its requests can have. Empty: no bound of its own."
MOST_DIGITS = 1_000  # Python itself refuses 4,300, in words for programmers


class BoundedJSONParser(JSONParser):
    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        body = stream.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise RequestDataTooBig
        if fault := encoding_fault(body):
            raise ParseError(fault)
        try:
            data: dict[str, Any] = json.loads(body, object_pairs_hook=distinct, **_NUMBERS)
        except RepeatedKeyError as error:
            raise ValidationError({error.key: [str(error)]}, "repeated") from None
        except RecursionError:
            raise ParseError("JSON parse error: nested too deeply; use fewer levels") from None
        except ValueError as error:
            raise ParseError(f"JSON parse error: {error}") from None
        if is_endless(data):
            raise ParseError(ENDLESS)
        return data


def _number(text: str) -> float:
    """JSON has one kind of number, so 1.0 and 1e3 are whole. Beyond 2^53 a float has no neighbours to tell apart."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= 2**53 else value


def _whole(text: str) -> int:
    digits = len(text.lstrip("-"))
    if digits >= MOST_DIGITS:
        raise ValueError(f"a number has {digits:,} digits; write one with fewer than {MOST_DIGITS:,}")
    return int(text)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON; write a number or null")


_NUMBERS: dict[str, Any] = {"parse_float": _number, "parse_int": _whole, "parse_constant": _no_number}


LIMIT = {"$ref": "#/components/schemas/Limit"}
LIMITS = {"type": "array", "items": LIMIT}
PATCH = {"$ref": "#/components/schemas/LimitPatch"}
PATCHES = {"type": "object", "additionalProperties": PATCH, "propertyNames": schema.NAME}

COMPONENTS = {"Limit": schema.limit(), "LimitPatch": schema.limit_patch()}


class _Raw(serializers.Field[Any, Any, Any, Any]):
    """Passed on as it is: quotas.policies validates it and says what to change."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise ValidationError(f"must be an object of fields, not {shown(data)}", "type")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(LIMIT)
class LimitField(_Raw):
    pass


@extend_schema_field(PATCHES)
class LimitPatchesField(_Raw):
    pass


Fields = dict[str, Any]


class Text(serializers.CharField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise ValidationError(f"must be text, not {shown(data)}", "type")
        return super().to_internal_value(data)


class Line(Text):
    """A label: one line. The service refuses control characters."""

    stated = {"pattern": patterns.LINE}


class Said(Text):
    """Not only spaces: a reason, or what is searched for."""

    stated = {"pattern": patterns.SAID}


class Sentence(Said):
    """In one line."""

    stated = {"pattern": patterns.SAID_IN_A_LINE}


class DocumentText(Text):
    """A policy document. Its reader tells what is wrong with the text, with the line."""

    stated: ClassVar[dict[str, Any]] = {}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        unneeded = (ProhibitNullCharactersValidator, ProhibitSurrogateCharactersValidator)
        self.validators = [one for one in self.validators if not isinstance(one, unneeded)]


class TimeZone(Text):
    stated = {"pattern": patterns.TIMEZONE}


class Word(serializers.RegexField):
    """A name that matches a pattern."""

    def __init__(self, pattern: str, **kwargs: Any) -> None:
        super().__init__(f"^(?:{pattern})$", trim_whitespace=False, **kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            raise ValidationError(f"must be a name, not {shown(data)}", "type")
        return super().to_internal_value(data)


class Whole(serializers.IntegerField):
    def to_internal_value(self, data: Any) -> int:
        if type(data) is not int:
            raise ValidationError(f"must be a whole number, not {shown(data)}", "type")
        return super().to_internal_value(data)


class Number(serializers.FloatField):
    def to_internal_value(self, data: Any) -> float:
        if type(data) not in (int, float):
            raise ValidationError(f"must be a number, not {shown(data)}", "type")
        return super().to_internal_value(data)


class Flag(serializers.BooleanField):
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            raise ValidationError(f"must be true or false, not {shown(data)}", "type")
        return data


class Choice(serializers.ChoiceField):
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str):
            raise ValidationError(self._wrong(data), "type")
        if data not in self.choices and not (data == "" and self.allow_blank):
            raise ValidationError(self._wrong(data), "invalid_choice")
        return super().to_internal_value(data)

    def _wrong(self, data: object) -> str:
        named = ", ".join(choice for choice in self.choices if choice)
        return f"must be {'empty or ' if '' in self.choices else ''}one of {named}, not {shown(data)}"


class HighestPriority(Choice):
    """Of a tier or a tenant."""

    def __init__(self, **more: Any) -> None:
        super().__init__(choices=("", *PRIORITIES), help_text=HIGHEST, **more)


class Moment(serializers.DateTimeField):
    stated = {"format": "date-time", "pattern": patterns.MOMENT}

    def to_internal_value(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise ValidationError(f"must be a time such as 2030-01-31T18:00:00Z, not {shown(value)}", "type")
        return super().to_internal_value(value)

    def enforce_timezone(self, value: Any) -> Any:
        if not is_within(value):
            raise ValidationError(f"is in the year {value.year}; {WITHIN}", "range")
        if value.tzinfo is None:
            raise ValidationError("has no time zone; write it like 2030-01-31T18:00:00Z", "timezone")
        return super().enforce_timezone(value)


@extend_schema_field(
    {
        "type": "object",
        "propertyNames": {"pattern": f"^{DIMENSION.pattern}$", "not": {"enum": sorted(RESERVED)}},
        "additionalProperties": {"type": "string", "maxLength": LONGEST_VALUE, "pattern": patterns.TEXT},
        "maxProperties": DIMENSIONS_MAX,
    }
)
class SubjectField(serializers.DictField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=Text(allow_blank=True, max_length=LONGEST_VALUE), **kwargs)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, dict) or len(data) > DIMENSIONS_MAX or not all(map(is_dimension, data)):
            message = f"must have at most {DIMENSIONS_MAX} dimensions, such as ip, key or user, with their values"
            raise ValidationError(message, "type")
        values: dict[str, str] = super().to_internal_value(data)
        return values


class Strict(serializers.Serializer[Any]):
    rules: ClassVar[dict[str, Any]] = {}  # JSON Schema of what several fields must be together

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            _refuse("", "type", f"send an object with the fields {', '.join(self.fields)}, not {shown(data)}")
        for name in data:
            if name not in self.fields:
                error = unknown_field(name, self.fields, "this request")
                _refuse(error.field, error.code, error.message)
        return super().to_internal_value(data)


class Reasoned(Strict):
    """A change, which must have a reason."""

    reason = Said(max_length=LONGEST_REASON, help_text="Why. It is kept in the history.")


class Query(serializers.Serializer[Any]):
    """Query parameters. They are text, so each field converts its own."""

    def to_internal_value(self, data: Any) -> Any:
        for name, values in data.lists():
            if name not in self.fields:
                error = unknown_field(name, self.fields, "this address's query")
                _refuse(error.field, error.code, error.message)
            if len(values) > 1:
                _refuse(name, "repeated", f"{name} is given {len(values)} times; give it once")
            if not is_fit(values[0]):
                _refuse(name, "unfit", f"{name} contains an invalid character (such as NUL); remove it")
        return super().to_internal_value(data.dict())


def body(kind: type[Strict], request: Request) -> Fields:
    reader = kind(data=request.data)
    reader.is_valid(raise_exception=True)
    return dict(reader.validated_data)


def query(kind: type[Query], request: Request) -> Fields:
    reader = kind(data=request.query_params)
    reader.is_valid(raise_exception=True)
    return dict(reader.validated_data)


def _refuse(field: str, code: str, message: str) -> NoReturn:
    raise ValidationError({field or "non_field_errors": [message]}, code)
