"""Installed packages that the code imports, compared with what the archive asks pip for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Set
from pathlib import Path

from makemar.archiver.requirements import Requirements, normalize_name
from makemar.archiver.trace import ForeignImport
from makemar.errors import Finding, Severity

__all__ = ["check_requirement_files", "check_third_party"]

# What comes with torch and TorchServe 0.12, apart from what the worker itself imports.
_THERE = {
    *("caffe2", "filelock", "fsspec", "functorch", "jinja2", "markupsafe", "mpmath", "networkx"),
    *("pkg_resources", "setuptools", "sympy", "wheel"),
}
# Distributions that are not called as they are imported, for machines without them.
_DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "faiss": "faiss-cpu",
    "fitz": "PyMuPDF",
    "git": "GitPython",
    "google.protobuf": "protobuf",
    "jwt": "PyJWT",
    "magic": "python-magic",
    "OpenSSL": "pyOpenSSL",
    "Levenshtein": "python-Levenshtein",
    "pycocotools": "pycocotools",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "slugify": "python-slugify",
    "soundfile": "soundfile",
    "tensorrt_llm": "tensorrt-llm",
    "zmq": "pyzmq",
}
# Any of these brings the module.
_SIBLINGS = {
    "cv2": (
        "opencv-python",
        "opencv-contrib-python",
        "opencv-contrib-python-headless",
    ),
    "faiss": ("faiss-gpu",),
    "onnxruntime": ("onnxruntime-gpu",),
    "tensorflow": ("tensorflow-cpu", "tensorflow-gpu"),
}


def check_third_party(
    imports: Iterable[ForeignImport], requirements: Requirements | None, file: Path | None
) -> Iterator[Finding]:
    """Yield a warning, with the line to add, for each import that no requirement brings.

    `requirements` and their `file` are None if the archive has none.
    """
    told = set()
    names = requirements.names if requirements is not None else set[str]()
    for found in imports:
        top = found.module.partition(".")[0]
        if top in told or top in _THERE or _is_required(found.module, names):
            continue
        told.add(top)
        distribution = _guess(found.module)
        where = "the archive has no requirements file" if file is None else f"not in {file.name}"
        add = f"write the line {distribution[:80]!r} into "
        add += f"{file}" if file else "a requirements.txt and name it (--requirements-file)"
        yield Finding(
            code="missing-requirement",
            severity=Severity.WARNING,
            message=f"import of {top[:80]!r}: {where}",
            fix=f"{add}; the server installs it if its config.properties has "
            "install_py_dep_per_model=true, else silence this if the server has it",
            path=found.path,
            line=found.line,
        )


def check_requirement_files(
    requirements: Requirements, members: Collection[str]
) -> Iterator[Finding]:
    """Yield a warning for each local file that pip is told to read and that is not packed."""
    for name, path, line in requirements.files:
        if name.removeprefix("./") in members:
            continue
        yield Finding(
            code="requirement-file",
            severity=Severity.WARNING,
            message=f"pip would look for {name!r} in the archive, where it is not",
            fix="pack it under that name with include (--include); pip runs in the archive's root",
            path=path,
            line=line,
        )


def _is_required(module: str, names: Set[str]) -> bool:
    top = module.partition(".")[0]
    likely = {top, *_SIBLINGS.get(top, ())}
    likely |= {_DISTRIBUTIONS[known] for known in (module, top) if known in _DISTRIBUTIONS}
    if names & {*map(normalize_name, likely)}:
        return True
    # Looking at everything that is installed takes a moment: only if it may help.
    return bool(names and names & {*map(normalize_name, _installed(top))})


def _guess(module: str) -> str:
    """Name the distribution that brings a module: as installed here, or as far as known."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        if (known := _DISTRIBUTIONS.get(".".join(parts[:count]))) is not None:
            return known
    installed = _installed(parts[0])
    return installed[0] if len(installed) == 1 else parts[0]


def _installed(top: str) -> list[str]:
    from importlib.metadata import packages_distributions

    return sorted(set(packages_distributions().get(top, ())))
