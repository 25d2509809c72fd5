from pathlib import Path

from makemar.serving import LogFile


def test_only_what_was_written_after_the_mark_is_told(tmp_path: Path):
    log = LogFile(tmp_path / "ts.log")
    assert log.mark() == 0
    assert log.since(0) == ""
    log.path.write_text("before\n")
    mark = log.mark()
    with log.path.open("a") as file:
        file.write("äfter\n")
    assert log.since(mark) == "äfter\n"
    assert log.since(0) == "before\näfter\n"


def test_a_log_that_was_rotated_is_told_from_its_start(tmp_path: Path):
    log = LogFile(tmp_path / "ts.log")
    log.path.write_text("a long day\n" * 9)
    mark = log.mark()
    log.path.write_text("new\n")
    assert log.since(mark) == "new\n"


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path):
    log = LogFile(tmp_path / "ts.log")
    log.path.write_bytes(b"\xff ok")
    assert log.since(0) == "\ufffd ok"


def test_reading_on_tells_each_whole_line_once(tmp_path: Path):
    log = LogFile(tmp_path / "ts.log")
    assert log.read_on(0) == ("", 0)
    log.path.write_bytes("ä one\ntw".encode())
    text, mark = log.read_on(0)
    assert text == "ä one\n"
    assert log.read_on(mark) == ("", mark)
    with log.path.open("ab") as file:
        file.write(b"o \xff\n")
    text, mark = log.read_on(mark)
    assert (text, mark) == ("two \ufffd\n", log.mark())


def test_reading_on_in_a_log_that_was_rotated_begins_anew(tmp_path: Path):
    log = LogFile(tmp_path / "ts.log")
    log.path.write_text("a long day\n" * 9)
    _, mark = log.read_on(0)
    log.path.write_text("new\n")
    assert log.read_on(mark) == ("new\n", 4)
