"""Recordings as one channel of float32 samples at the rate that a model takes."""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Mapping

import torch

from makemar.handlers.codecs import to_bytes, to_tensor
from makemar.handlers.errors import BadRequestError, PayloadTooLargeError

__all__ = ["AUDIO", "read_audio", "resample"]

_RATES = range(1_000, 400_000)  # Hz; what a header says beyond is a lie, and costly to believe
# A recording as JSON Schema sees it: a file in base64, or the samples themselves.
AUDIO: Mapping[str, object] = {
    "anyOf": [
        {"type": "string", "contentEncoding": "base64", "contentMediaType": "audio/wav"},
        {"type": "array", "items": {"type": "number"}, "minItems": 1},
    ]
}


def read_audio(value: object, *, sample_rate: int, max_seconds: float) -> torch.Tensor:
    """Turn what a client sent into samples (n,), float32 from -1 to 1.

    Takes a WAV file (PCM of 8 to 32 bits, any rate, channels are averaged), as bytes or base64,
    or numbers that have the right rate already. Raises `BadRequestError`, and
    `PayloadTooLargeError` for more than `max_seconds`, before anything is decoded.
    """
    if isinstance(value, str):
        value = to_bytes(value)
    if isinstance(value, (bytes, bytearray)) and bytes(value[:4]) == b"RIFF":
        samples = _read_wav(bytes(value), sample_rate, max_seconds)
    else:
        samples = to_tensor(value, dtype=torch.float32)
        if samples.dim() != 1:
            raise BadRequestError(
                f"the samples sent have shape {list(samples.shape)}; send one channel, [samples]"
            )
        _check_length(len(samples), sample_rate, max_seconds)
    if not len(samples):
        raise BadRequestError("the recording sent is empty")
    if not torch.isfinite(samples).all():
        raise BadRequestError("some of the samples sent are no numbers (NaN or infinite)")
    return samples


def resample(samples: torch.Tensor, *, source: int, target: int) -> torch.Tensor:
    """Change the rate of samples (n,), in Hz, keeping what both rates can hold.

    Frequencies over half the lower rate are cut off: they would come back as others.
    """
    if source == target:
        return samples
    # Only a whole number of periods that both rates share keeps the pitch to the last digit.
    block = source // math.gcd(source, target)
    padded = torch.nn.functional.pad(samples, (0, -len(samples) % block))
    count = len(padded) * target // source
    spectrum = torch.fft.rfft(padded)
    kept = torch.zeros(count // 2 + 1, dtype=spectrum.dtype)
    shared = min(len(spectrum), len(kept))
    kept[:shared] = spectrum[:shared]
    resampled: torch.Tensor = torch.fft.irfft(kept, n=count) * (count / len(padded))
    return resampled[: max(1, round(len(samples) * target / source))]


def _read_wav(data: bytes, sample_rate: int, max_seconds: float) -> torch.Tensor:
    try:
        with wave.open(io.BytesIO(data)) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            if rate not in _RATES:
                raise BadRequestError(f"the WAV file says {rate} samples per second")
            # A header can promise more than the file holds; only what is there counts.
            frames = min(file.getnframes(), len(data) // (channels * width))
            _check_length(frames, rate, max_seconds)
            raw = file.readframes(frames)
    except (wave.Error, EOFError) as error:
        raise BadRequestError(
            f"the WAV file cannot be read ({error}); send PCM of 8, 16, 24 or 32 bits"
        ) from error
    whole = len(raw) // (channels * width) * channels
    samples = _to_floats(raw[: whole * width], width).reshape(-1, channels).mean(1)
    return resample(samples, source=rate, target=sample_rate) if len(samples) else samples


def _to_floats(raw: bytes, width: int) -> torch.Tensor:
    """Turn little-endian PCM of 1 to 4 bytes to float32 from -1 to 1; one byte is unsigned."""
    if not raw:
        return torch.zeros(0)
    data = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
    if width == 1:
        return (data.float() - 128) / 128
    # Each sample becomes the upper bytes of an int32, so that its sign is where it belongs.
    padded = torch.zeros(len(data) // width, 4, dtype=torch.uint8)
    padded[:, 4 - width :] = data.reshape(-1, width)
    return padded.view(torch.int32)[:, 0].float() / 2**31


def _check_length(count: int, rate: int, max_seconds: float) -> None:
    if count > rate * max_seconds:
        raise PayloadTooLargeError(
            f"the recording has {count / rate:.1f} seconds, the limit is {max_seconds:g}"
        )
