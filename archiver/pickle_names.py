"""Which names a pickle may import: data, with its source."""

from __future__ import annotations

from makemar.archiver.pickle_machine import PickleImport

__all__ = ["is_accepted", "is_dangerous", "is_name", "is_torchscript"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What torch.load(weights_only=True) accepts without add_safe_globals: the keys of
# torch._weights_only_unpickler._get_allowed_globals() in torch 2.13; a test holds them equal.
_KINDS = "BFloat16 Bool Byte Char Double Float Half Int Long Short"
_REBUILD = (
    "device_tensor_from_cpu_tensor device_tensor_from_numpy meta_tensor_no_storage nested_tensor "
    "parameter parameter_with_state qtensor sparse_tensor tensor tensor_v2 tensor_v3 "
    "wrapper_subclass"
)
_DTYPES = (
    "bfloat16 bits16 bits1x8 bits2x4 bits4x2 bits8 bool complex128 complex32 complex64 float16 "
    "float32 float4_e2m1fn_x2 float64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu int1 int16 int2 int3 int32 int4 int5 int6 int64 int7 int8 per_channel_affine "
    "per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine per_tensor_symmetric "
    "qint32 qint8 quint2x4 quint4x2 quint8 uint1 uint16 uint2 uint3 uint32 uint4 uint5 uint6 "
    "uint64 uint7 uint8"
)
_OTHERS = (
    "_codecs.encode builtins.bytearray builtins.complex builtins.set collections.Counter "
    "collections.OrderedDict torch.Size torch.Tensor torch._tensor._rebuild_from_type_v2 "
    "torch.device torch.nn.parameter.Parameter torch.serialization._get_layout "
    "torch.storage.TypedStorage torch.storage.UntypedStorage"
)
_NO_SPARSE = ("Bool",)
_STORAGES_ONLY = "ComplexDouble ComplexFloat"
_QUANTIZED = "QInt32 QInt8 QUInt2x4 QUInt4x2 QUInt8"
_ACCEPTED = frozenset(
    [
        *_OTHERS.split(),
        *(f"torch._utils._rebuild_{name}" for name in _REBUILD.split()),
        *(f"torch.{name}" for name in _DTYPES.split()),
        *(f"torch.{name}Storage" for name in _QUANTIZED.split()),
        *(
            f"torch.{place}{name}Storage"
            for place in ("", "cuda.")
            for name in f"{_KINDS} {_STORAGES_ONLY}".split()
        ),
        *(f"torch.{place}{name}Tensor" for place in ("", "cuda.") for name in _KINDS.split()),
        *(
            f"torch.{place}sparse.{name}Tensor"
            for place in ("", "cuda.")
            for name in _KINDS.split()
            if name not in _NO_SPARSE
        ),
    ]
)

# Modules of which everything is a way to run code, to reach files or the network, or to get at
# such a thing by its name; what is below them counts too. Gathered from Python's documentation
# and from published attacks on scanners of pickles.
_DANGEROUS_MODULES = _names(
    "_aix_support _bootsubprocess _ctypes _imp _io _operator _osx_support _pickle "
    "_posixsubprocess _pyrepl _socket _thread _xxsubinterpreters aiohttp asyncio asyncore atexit "
    "bdb cProfile cffi cgitb cloudpickle code codeop commands compileall concurrent.futures "
    "ctypes dbm dill distutils doctest ensurepip fileinput ftplib functools gc getpass glob http "
    "httplib httpx idlelib imaplib imp importlib inspect io joblib.memory jsonpickle lib2to3 "
    "linecache logging.config logging.handlers mailcap marshal mmap modulefinder multiprocess "
    "multiprocessing nt ntpath numpy.distutils numpy.f2py numpy.testing operator os pathlib pdb "
    "pexpect pickle pip pkg_resources pkgutil platform poplib posix posixpath profile pstats "
    "psutil pty py_compile pydoc requests resource rlcompleter runpy sched select setuptools "
    "shelve shutil signal site smtplib socket socketserver sqlite3 ssl subprocess symtable sys "
    "sysconfig tarfile telnetlib tempfile test.support threading timeit torch._dynamo "
    "torch._inductor torch.distributed.run torch.hub torch.multiprocessing torch.package "
    "torch.utils.bottleneck torch.utils.collect_env torch.utils.cpp_extension "
    "torch.utils.data.datapipes trace turtle types unittest urllib urllib3 uuid venv webbrowser "
    "winreg xmlrpc zipapp zipfile zipimport"
)
# Names that run code or read pickles, in modules that hold harmless ones as well.
_DANGEROUS_NAMES = _names(
    "bz2.open codecs.open gzip.open io.open lzma.open collections.namedtuple "
    "copyreg.add_extension copyreg.constructor copyreg.pickle joblib.load "
    "joblib.numpy_pickle.load joblib.numpy_pickle.load_temporary_memmap logging.FileHandler "
    "numpy.fromfile numpy.genfromtxt numpy.load numpy.loadtxt numpy.memmap numpy.save "
    "numpy.savetxt pandas.eval pandas.read_csv pandas.read_pickle torch.classes.load_library "
    "torch.compile torch.fx.experimental.symbolic_shapes.ShapeEnv.evaluate_guards_expression "
    "torch.fx.graph_module._forward_from_src torch.fx.graph_module.reduce_graph_module "
    "torch.jit.load torch.jit.unsupported_tensor_ops.execWrapper torch.load "
    "torch.ops.load_library torch.save torch.serialization.add_safe_globals "
    "torch.serialization.load torch.serialization.save torch.storage._load_from_bytes "
    "torch.utils._config_module.ConfigModule.load_config yaml.load yaml.unsafe_load"
)
# Plain data out of modules that hold worse: what checkpoints of well-known trainers carry.
_PLAIN_NAMES = _names(
    "_io.BytesIO _io.StringIO io.BytesIO io.StringIO pathlib.Path pathlib.PosixPath "
    "pathlib.PurePath pathlib.PurePosixPath pathlib.PureWindowsPath pathlib.WindowsPath "
    "pathlib._local.Path pathlib._local.PosixPath pathlib._local.WindowsPath "
    "types.SimpleNamespace uuid.SafeUUID uuid.UUID"
)
# All else that builtins has is a way to code: eval, exec, getattr, open, __import__…
_PLAIN_BUILTINS = _names(
    "Ellipsis NotImplemented bool bytearray bytes complex dict enumerate float frozenset int list "
    "map object range reversed set slice str tuple type zip"
)
# On the way through attributes: `random._os.system`, `torch.serialization.os.system`.
_DANGEROUS_STEPS = _names(
    "builtins ctypes eval exec getattr importlib nt os popen posix pty runpy shutil socket "
    "subprocess sys system"
)


def is_accepted(found: PickleImport) -> bool:
    """Tell whether torch.load(weights_only=True) accepts an import without being told to."""
    return str(found) in _ACCEPTED


def is_name(found: PickleImport) -> bool:
    """Tell whether Python could have such a module and name at all."""
    return all(part.isidentifier() for part in str(found).split("."))


def is_torchscript(found: PickleImport) -> bool:
    """Tell whether a name is one of TorchScript's, whose own unpickler imports no Python."""
    return found.module.split(".")[0] == "__torch__" or found.module == "torch.jit._pickle"


def is_dangerous(found: PickleImport) -> bool:
    """Tell whether an import is a known way to run code, or no ordinary name at all."""
    full = str(found)
    parts = full.split(".")
    if not is_name(found):
        return True
    if full in _PLAIN_NAMES:
        return False
    if found.module == "builtins":
        return found.name not in _PLAIN_BUILTINS and not _is_exception(found.name)
    if any(".".join(parts[:count]) in _DANGEROUS_MODULES for count in range(1, len(parts))):
        return True
    # Of the name alone: a module of a user's own may be called what it likes.
    steps = {part.lstrip("_") for part in found.name.split(".")}
    return (
        full in _DANGEROUS_NAMES
        or bool(steps & _DANGEROUS_STEPS)
        or any(_is_dunder(part) for part in found.name.split(".")[:-1])
    )


def _is_exception(name: str) -> bool:
    return name.isidentifier() and name.endswith(("Error", "Exception", "Warning"))


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
