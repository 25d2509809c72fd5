"""VoiceActivity with the real Silero VAD: speech is found where it is, silence stays silent."""

import importlib.util
import io
import math
import shutil
import subprocess
import wave
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from makemar.handlers import LoadError, VoiceActivity, VoiceActivitySettings
from makemar.handlers.audio import read_audio, resample
from makemar.handlers.errors import BadRequestError
from makemar.handlers.invariance import assert_batch_invariant
from makemar.handlers.testing import ask, load
from makemar.handlers.voice_activity import speech_segments

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")


def wav(samples, rate=16_000, width=2, channels=1):
    """Write samples from -1 to 1 as a WAV file."""
    top = 2 ** (8 * width - 1) - 1
    numbers = [max(-top, min(top, round(float(x) * top))) for x in samples]
    raw = b"".join(
        ((n + 128) if width == 1 else n).to_bytes(width, "little", signed=width > 1)
        for n in numbers
        for _ in range(channels)
    )
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(raw)
    return file.getvalue()


def tone(seconds, rate=16_000, frequency=440.0):
    return 0.5 * torch.sin(2 * math.pi * frequency * torch.arange(int(seconds * rate)) / rate)


@pytest.fixture(scope="module")
def speech():
    """A sentence from a speech synthesiser, as samples at 16 kHz."""
    program = shutil.which("espeak-ng")
    if program is None:
        pytest.skip("espeak-ng is not installed")
    text = "The quick brown fox jumps over the lazy dog near the river bank"
    done = subprocess.run([program, "--stdout", text], capture_output=True, check=True)
    return read_audio(done.stdout, sample_rate=16_000, max_seconds=60)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("silero")
    spec = importlib.util.find_spec("silero_vad")
    shutil.copyfile(Path(spec.origin).parent / "data" / "silero_vad.jit", folder / "vad.pt")

    def build(**settings):
        config = {"handler": settings}
        return load(VoiceActivity, folder, model={"serializedFile": "vad.pt"}, config=config)

    return build


def test_speech_is_found_between_two_silences(build, speech, fits):
    silence = torch.zeros(16_000)
    handler = build(probabilities=True)
    (answer,) = ask(handler, [wav(torch.cat([silence, speech, silence]))])
    found = answer.json()["speech"]
    end = 1 + len(speech) / 16_000
    assert found
    assert 0.9 <= found[0]["start"] <= 1.4
    assert end - 0.6 <= found[-1]["end"] <= end + 0.3
    spoken = sum(part["end"] - part["start"] for part in found)
    assert spoken > 0.7 * len(speech) / 16_000
    assert answer.json()["duration"] == pytest.approx(end + 1, abs=1e-3)
    fits(handler, "output", answer.json())


def test_silence_noise_and_a_tone_are_no_speech(build):
    noise = 0.01 * torch.randn(32_000, generator=torch.Generator().manual_seed(0))
    for answer in ask(build(), [wav(x) for x in (torch.zeros(32_000), noise, tone(2))]):
        assert answer.json()["speech"] == []


def test_a_recording_is_answered_alike_alone_and_beside_longer_ones(build, speech):
    handler = build(probabilities=True)
    recordings = [wav(speech[:24_000]), wav(torch.zeros(5_000)), wav(tone(0.7))]
    assert_batch_invariant(handler, recordings, batch_sizes=(2, 3, 7))


def test_a_recording_is_answered_as_by_the_model_itself(build, speech):
    handler = build(probabilities=True)
    ask(handler, [wav(tone(0.3))])
    (answer,) = ask(handler, [wav(speech[:16_384])])
    handler.model.reset_states()
    samples = read_audio(wav(speech[:16_384]), sample_rate=16_000, max_seconds=60)
    with torch.no_grad():
        expected = [float(handler.model(window[None], 16_000)) for window in samples.split(512)]
    assert answer.json()["probabilities"] == pytest.approx(expected, abs=1e-4)


def test_a_bad_recording_costs_only_its_own_request(build):
    good = wav(torch.zeros(2_000))
    bodies = [good, b"RIFF what", good, {"body": [float("nan")]}, b"RIFF", {"body": [[0.0]]}, good]
    answers = ask(build(), bodies)
    assert [a.status for a in answers] == [200, 400, 200, 400, 400, 400, 200]
    (answer,) = ask(build(max_seconds=0.1), [good])
    assert answer.status == 413
    assert answer.json()["message"] == "the recording has 0.1 seconds, the limit is 0.1"


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_pcm_of_every_width_is_read(width, channels):
    samples = tone(0.01)
    read = read_audio(wav(samples, width=width, channels=channels), sample_rate=16_000,
                      max_seconds=1)  # fmt: skip
    assert torch.allclose(read, samples, atol=1.5 / 2 ** min(8 * width - 1, 20))


def test_a_file_cut_in_the_middle_of_a_sample_is_read_up_to_there():
    whole = wav(tone(0.01), width=3, channels=2)
    read = read_audio(whole[:-4], sample_rate=16_000, max_seconds=1)
    assert len(read) == 159


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 48_000])
def test_another_rate_is_converted_without_a_change_of_pitch(rate):
    read = read_audio(wav(tone(0.5, rate), rate=rate), sample_rate=16_000, max_seconds=1)
    assert len(read) in (7_999, 8_000)
    inner = slice(1_000, 7_000)
    assert torch.allclose(read[inner], tone(0.5)[inner], atol=0.02)


@pytest.mark.parametrize("rate", [1, 4_000_000_000])
def test_a_rate_that_no_recording_has_is_refused_before_it_costs_anything(rate):
    lying = bytearray(wav(tone(0.1)))
    lying[24:28] = rate.to_bytes(4, "little")
    with pytest.raises(BadRequestError, match=f"says {rate} samples per second"):
        read_audio(bytes(lying), sample_rate=16_000, max_seconds=1_000)


def test_a_pitch_that_the_lower_rate_cannot_hold_is_cut_off():
    high = resample(tone(0.5, 48_000, 12_000.0), source=48_000, target=16_000)
    assert high[1_000:7_000].abs().max() < 0.01


@pytest.mark.parametrize("value", [b"", [], b"\x00\x01", {"a": 1, "b": 2}, "no base64!"])
def test_what_is_no_recording_is_a_bad_request(value):
    with pytest.raises(BadRequestError):
        read_audio(value, sample_rate=16_000, max_seconds=1)


TENTHS = VoiceActivitySettings(sample_rate=10, window=1, pad_ms=0.0, min_speech_ms=200.0,
                               min_silence_ms=200.0)  # fmt: skip


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ([0.0, 0.0], []),
        ([0.9, 0.9, 0.9], [(0.0, 0.3)]),
        ([0.0, 0.9, 0.9, 0.0, 0.0, 0.0], [(0.1, 0.3)]),
        ([0.9, 0.9, 0.0, 0.9, 0.9], [(0.0, 0.5)]),
        ([0.9, 0.9, 0.0, 0.0, 0.0, 0.9, 0.9], [(0.0, 0.2), (0.5, 0.7)]),
        ([0.9, 0.0, 0.0, 0.0], []),
        ([0.9, 0.4, 0.4, 0.4, 0.4], [(0.0, 0.5)]),
        ([0.4, 0.4, 0.4], []),
    ],
)
def test_speech_begins_at_one_threshold_and_ends_at_another(probabilities, expected):
    found = speech_segments(probabilities, len(probabilities) / 10, TENTHS)
    assert found == [pytest.approx(pair) for pair in expected]


@given(st.lists(st.floats(0, 1), max_size=60), st.floats(0, 500), st.floats(0, 500))
def test_segments_are_in_order_and_inside_the_recording(probabilities, pad, silence):
    settings = VoiceActivitySettings(pad_ms=pad, min_silence_ms=silence, min_speech_ms=0.0)
    duration = len(probabilities) * 512 / 16_000
    times = [t for pair in speech_segments(probabilities, duration, settings) for t in pair]
    assert times == sorted(times)
    assert all(0 <= t <= duration for t in times)


@pytest.mark.parametrize("settings", [{"release": 0.6}, {"window": 0}, {"threshold": 1.5}])
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(LoadError, match=r"handler\."):
        VoiceActivitySettings(**settings)
