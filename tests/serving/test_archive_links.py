from collections.abc import Callable
from pathlib import Path

import pytest

from makemar.errors import ArchiveError, ServingError
from makemar.serving.archive_links import link_archives, plan_links

SOURCE = "def handle(data, context):\n    return data\n"
ZipUp = Callable[..., Path]


def test_an_archive_keeps_its_name_and_tells_its_model(zip_up: ZipUp):
    path = zip_up("one", SOURCE, version="3.1")
    (link,) = plan_links([str(path)], store=None)
    assert (link.source, link.model, link.version, link.name) == (path, "one", "3.1", "one.mar")


def test_an_archive_without_a_version_is_what_the_server_makes_of_it(zip_up: ZipUp):
    (link,) = plan_links([zip_up("one", SOURCE, version="")], store=None)
    assert link.version == "1.0"


def test_two_archives_of_one_name_get_two_names_in_the_store(zip_up: ZipUp, tmp_path: Path):
    first, second = zip_up("one", SOURCE), zip_up("one", SOURCE, version="2.0")
    links = plan_links([first, second], store=None)
    assert [link.name for link in links] == ["one.mar", "one-2.mar"]
    link_archives(links, tmp_path)
    assert (tmp_path / "one-2.mar").read_bytes() == second.read_bytes()


def test_links_of_an_earlier_run_are_replaced(zip_up: ZipUp, tmp_path: Path):
    link_archives(plan_links([zip_up("one", SOURCE)], store=None), tmp_path)
    newer = zip_up("one", SOURCE, version="2.0")
    link_archives(plan_links([newer], store=None), tmp_path)
    assert (tmp_path / "one.mar").resolve() == newer.resolve()


def test_a_file_in_the_way_of_a_link_is_told_and_kept(zip_up: ZipUp, tmp_path: Path):
    (tmp_path / "one.mar").write_text("precious")
    with pytest.raises(ServingError, match=r"one\.mar is in the way of a link"):
        link_archives(plan_links([zip_up("one", SOURCE)], store=None), tmp_path)
    assert (tmp_path / "one.mar").read_text() == "precious"


def test_a_name_with_two_dots_is_one_that_the_server_takes(zip_up: ZipUp):
    path = zip_up("one", SOURCE)
    path = path.rename(path.with_name("one..two.mar"))
    assert plan_links([path], store=None)[0].name == "one__two.mar"


def test_two_archives_of_one_version_are_refused(zip_up: ZipUp):
    archives = [zip_up("one", SOURCE), zip_up("one", SOURCE)]
    with pytest.raises(ServingError, match=r"are both model 'one' version 1\.0"):
        plan_links(archives, store=None)


def test_what_is_no_archive_is_told_before_any_server_starts(tmp_path: Path):
    (tmp_path / "junk.mar").write_bytes(b"junk")
    with pytest.raises(ArchiveError):
        plan_links([tmp_path / "junk.mar"], store=None)
    with pytest.raises(ArchiveError):
        plan_links([tmp_path / "missing.mar"], store=None)


def test_nothing_is_put_into_a_store_that_the_user_keeps(zip_up: ZipUp, tmp_path: Path):
    archive = zip_up("one", SOURCE)
    (link,) = plan_links([archive], store=archive.parent)
    assert link.name == archive.name
    with pytest.raises(ServingError, match="is not in the model store"):
        plan_links([archive], store=tmp_path)
