"""When somebody speaks in a recording."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from makemar.handlers.audio import AUDIO, read_audio
from makemar.handlers.base import BaseHandler
from makemar.handlers.errors import LoadError, ModelError
from makemar.handlers.limits import limited
from makemar.handlers.outputs import Batch
from makemar.handlers.preparation import place_inputs
from makemar.handlers.request import Request
from makemar.handlers.settings import HandlerSettings

__all__ = ["VoiceActivity", "VoiceActivitySettings", "speech_segments"]


@dataclasses.dataclass(frozen=True)
class VoiceActivitySettings(HandlerSettings):
    """`handler:` settings of `VoiceActivity`; the defaults are those of Silero VAD.

    `sample_rate`: in Hz, what the network takes; WAV files of other rates are converted.
    `window`: samples that it takes at once. `max_seconds`: longer recordings get 413.
    `threshold`: the probability at which speech begins; it ends below `release`.
    `min_speech_ms`: shorter speech is left out; `min_silence_ms`: shorter pauses do not part it;
    `pad_ms`: what is added at both ends. `probabilities`: reply with that of every window too.
    """

    sample_rate: int = limited(16_000, at_least=1, at_most=400_000)
    window: int = limited(512, at_least=1)
    max_seconds: float = limited(600.0, above=0)
    threshold: float = limited(0.5, at_least=0, at_most=1)
    release: float = limited(0.35, at_least=0, at_most=1)
    min_speech_ms: float = limited(250.0, at_least=0)
    min_silence_ms: float = limited(100.0, at_least=0)
    pad_ms: float = limited(30.0, at_least=0)
    probabilities: bool = False

    def __post_init__(self) -> None:
        """Refuse speech that would end before it begins."""
        super().__post_init__()
        if self.release > self.threshold:
            raise LoadError(
                f"handler.release is {self.release}, "
                f"it must be at most handler.threshold, {self.threshold}"
            )


class VoiceActivity(BaseHandler):
    """Answer a recording with when somebody speaks: `{"speech": [{"start": 0.4, "end": 1.9}]}`.

    The network takes one window of each recording, (n, window), and the sample rate; it gives the
    probability of speech, (n, 1). What it remembers from window to window it forgets in
    `reset_states()`, if it has one (as Silero VAD does), so that each recording starts afresh.
    """

    settings_type: ClassVar[type[VoiceActivitySettings]] = VoiceActivitySettings
    settings: VoiceActivitySettings

    def read(self, value: object) -> torch.Tensor:
        """Turn a recording into samples (n,), float32 from -1 to 1."""
        wanted = self.settings
        return read_audio(value, sample_rate=wanted.sample_rate, max_seconds=wanted.max_seconds)

    def length(self, sample: torch.Tensor) -> int:
        """Return the number of windows."""
        return -(-len(sample) // self.settings.window)

    def collate(self, samples: Sequence[torch.Tensor]) -> Batch:
        """Pad recordings with silence at their end to (n, windows, window)."""
        width = max(self.length(sample) for sample in samples) * self.settings.window
        padded = torch.zeros(len(samples), width)
        for row, sample in zip(padded, samples):
            row[: len(sample)] = sample
        return Batch(padded.reshape(len(samples), -1, self.settings.window), samples)

    def forward(self, batch: Batch, *args: Any, **kwargs: Any) -> list[Any]:
        """Return each recording with the probabilities (its own windows,) of speech."""
        windows = place_inputs(batch.inputs, self.device, self.settings)
        # The network only looks back: what follows the end of a recording changes nothing in it.
        if hasattr(self.model, "reset_states"):
            self.model.reset_states()
        columns = [
            self.model(windows[:, i], self.settings.sample_rate, *args, **kwargs)
            for i in range(windows.shape[1])
        ]
        probabilities = torch.stack(columns, 1).float().cpu()
        if probabilities.shape[:2] != windows.shape[:2] or probabilities[0, 0].numel() != 1:
            raise ModelError(
                f"the network gave shape {list(columns[0].shape)} for {len(windows)} windows"
            )
        return [
            (sample, row.flatten()[: self.length(sample)])
            for sample, row in zip(batch.samples, probabilities)
        ]

    def encode(self, output: Any, request: Request) -> object:  # noqa: ARG002
        """Turn a recording and its probabilities into times in seconds."""
        sample, probabilities = output
        if not torch.isfinite(probabilities).all():
            raise ModelError("the network gave probabilities that are no numbers")
        duration = len(sample) / self.settings.sample_rate
        reply: dict[str, object] = {
            "duration": round(duration, 3),
            "speech": [
                {"start": round(start, 3), "end": round(end, 3)}
                for start, end in speech_segments(probabilities.tolist(), duration, self.settings)
            ],
        }
        if self.settings.probabilities:
            reply["probabilities"] = probabilities
        return reply

    def examples(self) -> Sequence[torch.Tensor]:
        """Return a second of silence."""
        return [torch.zeros(self.settings.sample_rate)]

    def describe(self) -> Mapping[str, object]:
        """Describe input and output as JSON Schema."""
        seconds = {"type": "number", "minimum": 0}
        segment = {
            "type": "object",
            "properties": {"start": seconds, "end": seconds},
            "required": ["end", "start"],
        }
        fields: dict[str, object] = {
            "duration": seconds,
            "speech": {"type": "array", "items": segment},
        }
        if self.settings.probabilities:
            probability = {"type": "number", "minimum": 0, "maximum": 1}
            fields["probabilities"] = {"type": "array", "items": probability}
        output = {"type": "object", "properties": fields, "required": sorted(fields)}
        return {"handler": type(self).__name__, "input": AUDIO, "output": output}


def speech_segments(
    probabilities: Sequence[float], duration: float, settings: VoiceActivitySettings
) -> list[tuple[float, float]]:
    """Return when speech starts and ends, in seconds, from the probability of each window.

    It starts at `threshold` and ends where the probability stays below `release` for at least
    `min_silence_ms`.
    """
    window = settings.window / settings.sample_rate
    found: list[tuple[float, float]] = []
    start, quiet = -1, -1
    for i, probability in enumerate([*probabilities, -1.0]):
        ended = i == len(probabilities)
        if probability >= settings.threshold:
            start, quiet = (i if start < 0 else start), -1
        elif start >= 0 and probability < settings.release:
            quiet = i if quiet < 0 else quiet
            if ended or (i - quiet) * window * 1000 >= settings.min_silence_ms:
                found.append((start * window, quiet * window))
                start, quiet = -1, -1
    pad = settings.pad_ms / 1000
    long = [(a, b) for a, b in found if (b - a) * 1000 >= settings.min_speech_ms]
    return _separate([(max(0.0, a - pad), min(duration, b + pad)) for a, b in long])


def _separate(segments: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Let neighbours whose padding overlaps meet in the middle."""
    for i in range(1, len(segments)):
        (start, end), (following, last) = segments[i - 1], segments[i]
        if following < end:
            middle = (end + following) / 2
            segments[i - 1], segments[i] = (start, middle), (middle, last)
    return segments
