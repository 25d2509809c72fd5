"""Run TorchServe and talk to it: the server, its management and its inference API."""

from makemar.serving.addresses import ServerAddresses, with_ports
from makemar.serving.descriptions import ModelDescription, ModelEntry, WorkerDescription
from makemar.serving.inference import DEFAULT_CONCURRENCY, InferenceClient
from makemar.serving.java import find_java
from makemar.serving.log_file import LogFile, LogReader
from makemar.serving.management import ManagementClient
from makemar.serving.reply import Reply
from makemar.serving.server import TorchServe
from makemar.serving.state import ServerState, stop_server
from makemar.serving.tokens import KeyFile

__all__ = [
    "DEFAULT_CONCURRENCY",
    "InferenceClient",
    "KeyFile",
    "LogFile",
    "LogReader",
    "ManagementClient",
    "ModelDescription",
    "ModelEntry",
    "Reply",
    "ServerAddresses",
    "ServerState",
    "TorchServe",
    "WorkerDescription",
    "find_java",
    "stop_server",
    "with_ports",
]
