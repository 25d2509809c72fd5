"""Run TorchServe and talk to it: the server, its management and its inference API."""

from makemar.serving.addresses import ServerAddresses, with_ports
from makemar.serving.check import check_archive
from makemar.serving.check_report import Breach, CheckReport, Contract
from makemar.serving.descriptions import ModelDescription, ModelEntry, WorkerDescription
from makemar.serving.examination import CheckInput
from makemar.serving.inference import DEFAULT_CONCURRENCY, InferenceClient
from makemar.serving.java import find_java
from makemar.serving.log_file import LogFile, LogReader
from makemar.serving.management import ManagementClient
from makemar.serving.reply import Reply
from makemar.serving.server import TorchServe
from makemar.serving.state import ServerState, stop_server
from makemar.serving.tokens import KeyFile
from makemar.serving.worker import Worker
from makemar.serving.worker_error import WorkerError
from makemar.serving.worker_messages import WorkerPart, WorkerReply, WorkerRequest
from makemar.serving.worker_times import WorkerTimes

__all__ = [
    "DEFAULT_CONCURRENCY",
    "Breach",
    "CheckInput",
    "CheckReport",
    "Contract",
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
    "Worker",
    "WorkerDescription",
    "WorkerError",
    "WorkerPart",
    "WorkerReply",
    "WorkerRequest",
    "WorkerTimes",
    "check_archive",
    "find_java",
    "stop_server",
    "with_ports",
]
