"""What runs inside TorchServe's worker: the base class, the families, and what a request is.

This package is vendored into every archive. It needs torch and the standard library; families
that decode pictures need Pillow and numpy. It keeps to Python 3.9 and torch 2.4.

Names are loaded when they are first used, and an archive carries only the modules that its handler
needs: `_HOMES` says where each name lives.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from makemar.handlers.base import BaseHandler
    from makemar.handlers.errors import (
        BadRequestError,
        DeviceLostError,
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
    from makemar.handlers.outputs import Batch
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
    "Batch",
    "DeviceLostError",
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

_HOMES = {
    "BadRequestError": "errors",
    "BaseHandler": "base",
    "Batch": "outputs",
    "DeviceLostError": "errors",
    "FunctionStage": "stages",
    "HandlerSettings": "settings",
    "ImageClassifier": "image_classifier",
    "ImageClassifierSettings": "image_classifier",
    "ImageSegmenter": "image_segmenter",
    "ImageSegmenterSettings": "image_segmenter",
    "LoadError": "errors",
    "ModelError": "errors",
    "ModelStage": "stages",
    "ObjectDetector": "object_detector",
    "ObjectDetectorSettings": "object_detector",
    "OutOfMemoryError": "errors",
    "PayloadTooLargeError": "errors",
    "PipelineHandler": "pipeline",
    "Reply": "reply",
    "ReplyError": "errors",
    "Request": "request",
    "RequestError": "errors",
    "Samples": "request",
    "Stage": "stages",
    "TensorHandler": "tensor_handler",
    "TensorHandlerSettings": "tensor_handler",
    "TextClassifier": "text_classifier",
    "TextClassifierSettings": "text_classifier",
    "TextEmbedder": "text_embedder",
    "TextEmbedderSettings": "text_embedder",
    "TextGenerator": "text_generator",
    "TextGeneratorSettings": "text_generator",
    "TokenClassifier": "token_classifier",
    "TokenClassifierSettings": "token_classifier",
    "UnsupportedTypeError": "errors",
    "VoiceActivity": "voice_activity",
    "VoiceActivitySettings": "voice_activity",
}


def __getattr__(name: str) -> object:
    """Load a public name from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
