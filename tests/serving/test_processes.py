"""Only what a server started is ended, whoever has its old process id by now."""

import os
import signal
import subprocess
import time

import psutil

from makemar.serving.processes import terminate_group


def test_a_group_whose_leader_ended_long_ago_may_be_anybodys():
    # A shell that leaves a job behind: the group lives on under the id of its dead leader.
    shell = subprocess.Popen(
        ["sh", "-c", "sleep 60 >/dev/null & echo $!"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    job = int(shell.communicate(timeout=10)[0])
    try:
        terminate_group(shell.pid, time.time() - 3600, grace=0.1, known=False)
        assert psutil.Process(job).status() != psutil.STATUS_ZOMBIE
    finally:
        os.kill(job, signal.SIGKILL)
