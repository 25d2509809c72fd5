"""What runs inside TorchServe's worker: the base class, the families, and what a request is.

This package is vendored into every archive. It needs torch and the standard library; families
that decode pictures need Pillow and numpy. It keeps to Python 3.9 and torch 2.4.
"""

from makemar.handlers.base import BaseHandler
from makemar.handlers.errors import (
    BadRequestError,
    LoadError,
    ModelError,
    OutOfMemoryError,
    PayloadTooLargeError,
    ReplyError,
    RequestError,
    UnsupportedTypeError,
)
from makemar.handlers.image_classifier import ImageClassifier, ImageClassifierSettings
from makemar.handlers.image_segmenter import ImageSegmenter, ImageSegmenterSettings
from makemar.handlers.object_detector import ObjectDetector, ObjectDetectorSettings
from makemar.handlers.pipeline import PipelineHandler
from makemar.handlers.reply import Reply
from makemar.handlers.request import Request, Samples
from makemar.handlers.settings import HandlerSettings
from makemar.handlers.stages import FunctionStage, ModelStage, Stage
from makemar.handlers.tensor_handler import TensorHandler, TensorHandlerSettings
from makemar.handlers.text_classifier import TextClassifier, TextClassifierSettings
from makemar.handlers.text_embedder import TextEmbedder, TextEmbedderSettings
from makemar.handlers.text_generator import TextGenerator, TextGeneratorSettings
from makemar.handlers.token_classifier import TokenClassifier, TokenClassifierSettings
from makemar.handlers.voice_activity import VoiceActivity, VoiceActivitySettings

__all__ = [
    "BadRequestError",
    "BaseHandler",
    "FunctionStage",
    "HandlerSettings",
    "ImageClassifier",
    "ImageClassifierSettings",
    "ImageSegmenter",
    "ImageSegmenterSettings",
    "LoadError",
    "ModelError",
    "ModelStage",
    "ObjectDetector",
    "ObjectDetectorSettings",
    "OutOfMemoryError",
    "PayloadTooLargeError",
    "PipelineHandler",
    "Reply",
    "ReplyError",
    "Request",
    "RequestError",
    "Samples",
    "Stage",
    "TensorHandler",
    "TensorHandlerSettings",
    "TextClassifier",
    "TextClassifierSettings",
    "TextEmbedder",
    "TextEmbedderSettings",
    "TextGenerator",
    "TextGeneratorSettings",
    "TokenClassifier",
    "TokenClassifierSettings",
    "UnsupportedTypeError",
    "VoiceActivity",
    "VoiceActivitySettings",
]
