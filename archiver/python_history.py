"""When Python's standard library got what handlers use: the first version that has it."""

from __future__ import annotations

__all__ = ["NEW_ARGUMENTS", "NEW_BUILTINS", "NEW_MODULES", "NEW_NAMES", "OLD_MODULES", "Version"]

Version = tuple[int, int]

NEW_MODULES: dict[str, Version] = {
    "graphlib": (3, 9),
    "zoneinfo": (3, 9),
    "tomllib": (3, 11),
    "annotationlib": (3, 14),
    "compression": (3, 14),
}
# Modules that are gone, by the first version without them.
_GONE = {
    (3, 12): "asynchat asyncore distutils imp smtpd",
    (3, 13): "aifc audioop cgi cgitb chunk crypt imghdr mailcap msilib nis nntplib ossaudiodev "
    "pipes sndhdr spwd sunau telnetlib uu xdrlib",
}
OLD_MODULES: dict[str, Version] = {
    name: version for version, names in _GONE.items() for name in names.split()
}
_BUILTINS = {
    (3, 10): "EncodingWarning aiter anext",
    (3, 11): "BaseExceptionGroup ExceptionGroup",
    (3, 13): "PythonFinalizationError",
}
NEW_BUILTINS: dict[str, Version] = {
    name: version for version, names in _BUILTINS.items() for name in names.split()
}
_NAMES = {
    (3, 10): {
        "contextlib": "aclosing",
        "inspect": "get_annotations",
        "itertools": "pairwise",
        "statistics": "correlation covariance linear_regression",
        "types": "EllipsisType NoneType NotImplementedType UnionType",
        "typing": "Concatenate ParamSpec ParamSpecArgs ParamSpecKwargs TypeAlias TypeGuard "
        "is_typeddict",
    },
    (3, 11): {
        "asyncio": "Runner TaskGroup Timeout timeout timeout_at",
        "contextlib": "chdir",
        "datetime": "UTC",
        "enum": "EnumCheck FlagBoundary ReprEnum StrEnum global_enum member nonmember property "
        "verify",
        "hashlib": "file_digest",
        "logging": "getLevelNamesMapping",
        "math": "cbrt exp2",
        "operator": "call",
        "typing": "LiteralString Never NotRequired Required Self TypeVarTuple Unpack assert_never "
        "assert_type clear_overloads dataclass_transform get_overloads reveal_type",
    },
    (3, 12): {
        "calendar": "Day Month",
        "collections.abc": "Buffer",
        "inspect": "BufferFlags markcoroutinefunction",
        "itertools": "batched",
        "math": "sumprod",
        "types": "get_original_bases",
        "typing": "TypeAliasType override",
    },
    (3, 13): {
        "copy": "replace",
        "math": "fma",
        "queue": "ShutDown",
        "typing": "NoDefault ReadOnly TypeIs get_protocol_members is_protocol",
        "warnings": "deprecated",
    },
}
NEW_NAMES: dict[tuple[str, str], Version] = {
    (module, name): version
    for version, modules in _NAMES.items()
    for module, names in modules.items()
    for name in names.split()
}
# Keyword arguments of functions that had been there before.
NEW_ARGUMENTS: dict[tuple[str, str], Version] = {
    ("dataclass", "kw_only"): (3, 10),
    ("dataclass", "slots"): (3, 10),
    ("dataclass", "weakref_slot"): (3, 11),
    ("zip", "strict"): (3, 10),
}
