import textwrap
import traceback

from makemar.serving.worker_log import count_failures, find_fault, find_plain_fault, last_words

STAMP = "2026-12-01T11:46:05,928"


def told(text: str, worker: str = "9000", name: str = "m_1.0") -> str:
    """Write lines as TorchServe logs what a worker prints."""
    return "".join(
        f"{STAMP} [INFO ] W-{worker}-{name}-stdout MODEL_LOG - {line}\n"
        for line in text.splitlines()
    )


def retry(worker: str = "9000", name: str = "m_1.0", seconds: int = 1) -> str:
    who = f"W-{worker}-{name} org.pytorch.serve.wlm.WorkerThread"
    return f"{STAMP} [INFO ] {who} - Retry worker: {worker} in {seconds} seconds.\n"


def raised(code: str) -> str:
    """Run code that raises, and return the traceback that Python prints."""
    try:
        exec(compile(textwrap.dedent(code), "/tmp/models/f00/handler.py", "exec"), {})
    except Exception:  # noqa: BLE001 - whatever it is, it is printed
        return traceback.format_exc()
    raise AssertionError("it was to raise")


def test_the_exception_and_its_place_are_found():
    log = told("Backend worker process died.\n" + raised("x = 1\nraise ValueError('boom')"))
    fault = find_fault(log + retry(), "9000")
    assert fault is not None
    assert str(fault) == "ValueError: boom (handler.py line 2, in <module>)"
    assert fault.traceback[0] == "Traceback (most recent call last):"
    assert fault.traceback[-1] == "ValueError: boom"


def test_the_way_out_of_the_worker_is_not_taken_for_the_reason():
    real, out = (
        raised("raise RuntimeError('weights')"),
        raised("raise RuntimeError('500 - Unknown')"),
    )
    log = told(f"Failed to load model m\n{real}Backend worker process died.\n{out}")
    assert str(find_fault(log + retry(), "9000")).startswith("RuntimeError: weights")


def test_an_import_that_fails_is_not_hidden_by_the_search_for_a_built_in_handler():
    code = """
    try:
        import nopackage_x
    except ImportError:
        raise ModuleNotFoundError("No module named 'ts.torch_handler.handler'")
    """
    fault = find_fault(told(raised(code)) + retry(), "9000")
    assert fault is not None
    assert fault.exception == "ModuleNotFoundError: No module named 'nopackage_x'"


def test_of_a_chain_the_last_exception_is_told():
    code = """
    try:
        {}["weights"]
    except KeyError as error:
        raise ValueError("the archive has no weights") from error
    """
    fault = find_fault(told(raised(code)) + retry(), "9000")
    assert fault is not None
    assert fault.exception == "ValueError: the archive has no weights"


def test_a_message_of_several_lines_is_kept():
    code = "raise RuntimeError('Error(s) in loading state_dict for Net:\\n\\tMissing key: fc')"
    fault = find_fault(told(raised(code) + "Backend worker process died.") + retry(), "9000")
    assert fault is not None
    assert fault.exception.endswith("for Net: Missing key: fc")
    assert fault.traceback[-1] == "\tMissing key: fc"


def test_a_syntax_error_is_told_with_its_line():
    fault = find_fault(told(raised("class H(:\n  pass")) + retry(), "9000")
    assert fault is not None
    assert str(fault) == "SyntaxError: invalid syntax (handler.py line 1)"


def test_a_traceback_that_the_server_cut_is_taken_from_the_next_start():
    whole = raised("raise ValueError('boom')")
    cut = "\n".join(whole.splitlines()[:2])
    log = told(cut) + retry() + retry() + told(whole) + retry(seconds=2)
    assert str(find_fault(log, "9000")).startswith("ValueError: boom")
    assert find_fault(told(cut) + retry(), "9000") is None


def test_the_words_of_other_workers_are_not_mixed_in():
    mine, other = told(raised("raise ValueError('mine')")), raised("raise ValueError('other')")
    log = told(other, worker="90001") + mine + told(other, worker="9001") + retry(worker="9001")
    assert str(find_fault(log, "9000")).startswith("ValueError: mine")
    assert count_failures(log, "9000") == 0
    assert count_failures(log, "9001") == 1


def test_lines_of_two_workers_that_alternate_are_told_apart():
    lines = zip(
        told(raised("raise ValueError('one')")).splitlines(keepends=True),
        told(raised("raise ValueError('two')"), worker="9001").splitlines(keepends=True),
        strict=True,
    )
    log = "".join(one + two for one, two in lines)
    assert str(find_fault(log, "9000")).startswith("ValueError: one")
    assert str(find_fault(log, "9001")).startswith("ValueError: two")


def test_a_worker_that_says_nothing_has_no_exception():
    log = told("Torch worker started.") + retry() + retry()
    assert find_fault(log, "9000") is None
    assert count_failures(log, "9000") == 2


def test_the_frames_of_the_worker_itself_are_left_out():
    frames = [
        "Traceback (most recent call last):",
        '  File "/site/ts/model_service_worker.py", line 301, in <module>',
        "    worker.run_server()",
        '  File "<frozen importlib._bootstrap>", line 1204, in _gcd_import',
        '  File "/tmp/models/f00/handler.py", line 1, in <module>',
        "    import nopackage_x",
        "ModuleNotFoundError: No module named 'nopackage_x'",
    ]
    fault = find_fault(told("\n".join(frames)) + retry(), "9000")
    assert fault is not None
    assert fault.lines(12) == (frames[0], *frames[4:])
    assert fault.lines(1) == (frames[0], frames[-1])


def test_a_model_with_an_odd_name_is_read_too():
    log = told(raised("raise ValueError('boom')"), name="a-b c.d_1.0-beta")
    assert str(find_fault(log + retry(name="a-b c.d_1.0-beta"), "9000")).startswith("ValueError")
    assert count_failures(retry(name="a-b c.d_1.0-beta"), "9000") == 1


def test_an_exception_that_the_worker_lived_with_is_not_the_reason():
    lived = "Failed json decoding of input data.\n" + raised("raise KeyError('x')")
    assert find_plain_fault(lived + "these are my last words\n") is None
    died = lived + "Invoking custom service failed.\n" + raised("raise ValueError('y')")
    fault = find_plain_fault(died + "[METRICS]x\n")
    assert fault is not None
    assert fault.exception == "ValueError: y"


def test_an_exception_that_nobody_caught_is_the_reason():
    output = "hello\n" + raised("raise ImportError('z')")
    assert find_plain_fault(output) is None
    fault = find_plain_fault(output, uncaught=True)
    assert fault is not None
    assert fault.exception == "ImportError: z"
    assert find_plain_fault("", uncaught=True) is None
    assert find_plain_fault("Torch worker started.\n", uncaught=True) is None


def test_the_last_words_are_lines_that_say_something():
    output = "one\n\ntwo\n[METRICS]HandlerTime:1\n  \n"
    assert last_words(output, 1) == ("two",)
    assert last_words(output, 9) == ("one", "two")
    assert last_words("", 9) == ()
