"""The check for batch invariance passes what is right and names what is not."""

import pytest
import torch

from makemar.handlers import BaseHandler
from makemar.handlers.invariance import assert_batch_invariant, difference
from makemar.handlers.testing import ask


class Right(BaseHandler):
    """Softmax over each sample's own values."""

    def decode(self, request):
        return torch.tensor(request.payload(), dtype=torch.float32)

    def forward(self, batch):
        return torch.softmax(batch, dim=1)


class SoftmaxOverTheBatch(Right):
    def forward(self, batch):
        return torch.softmax(batch, dim=0)


class TrainingBatchNorm(Right):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3).train()

    def forward(self, batch):
        # A batch of one has no variance; such handlers repeat it.
        return self.norm(batch if len(batch) > 1 else batch.repeat(2, 1))[: len(batch)]


class LeakingPadding(Right):
    """Averages over the padding too."""

    def length(self, sample):
        return len(sample)

    def collate(self, samples):
        return torch.nn.utils.rnn.pad_sequence(list(samples), batch_first=True)

    def forward(self, batch):
        return batch.mean(1)


class Remembering(Right):
    last = 0.0

    def encode(self, output, request):
        answer, self.last = self.last, float(output[0])
        return answer


EQUAL = [{"body": [float(i), 1.0, -2.0 * i]} for i in range(5)]
RAGGED = [{"body": [1.0 + i] * (i + 1)} for i in range(5)]


def test_a_handler_whose_samples_do_not_meet_passes():
    assert_batch_invariant(Right(), EQUAL)


@pytest.mark.parametrize("broken", [SoftmaxOverTheBatch, TrainingBatchNorm, Remembering])
def test_a_handler_whose_samples_meet_is_caught(broken):
    with pytest.raises(AssertionError, match=r"sample \d gets another answer at place \d of \d"):
        assert_batch_invariant(broken(), EQUAL)


def test_padding_that_leaks_is_caught():
    with pytest.raises(AssertionError, match="another answer"):
        assert_batch_invariant(LeakingPadding(), RAGGED)


@pytest.mark.parametrize(
    ("a", "b", "where"),
    [
        ({"x": [1, 2]}, {"x": [1, 2]}, ""),
        ({"x": [1.0, 2.0]}, {"x": [1.0, 2.00001]}, ""),
        ({"x": [1.0, 2.0]}, {"x": [1.0, 2.1]}, "$.x[1] is 2.0 alone, 2.1 in the batch"),
        ({"x": 1}, {"y": 1}, "$ has other keys: ['x', 'y']"),
        ([1], [1, 2], "$ has 1 entries alone, 2 in the batch"),
        ("cat", "dog", "$ is 'cat' alone, 'dog' in the batch"),
    ],
)
def test_a_difference_is_named_by_its_place(a, b, where):
    assert difference(a, b, 1e-4) == where


def test_samples_that_are_answered_with_errors_compare_nothing():
    with pytest.raises(AssertionError, match="sample 1 is answered 400 alone"):
        assert_batch_invariant(Right(), [EQUAL[0], b"\xff"])
    with pytest.raises(AssertionError, match="there are no samples"):
        assert_batch_invariant(Right(), [])


def test_a_reply_that_would_kill_the_worker_is_no_answer():
    class Broken:
        def initialize(self, context):
            pass

        def handle(self, data, context):
            return [{1, 2}]

    with pytest.raises(AssertionError, match="reply 0 cannot be sent"):
        ask(Broken(), [b""])
