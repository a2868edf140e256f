"""Folders to object storage and back, odd names, and lists."""

import pytest

ODD = ["a b", "ä+ö%20", "=&?#;@!$'(),*", "-._~", "日本/語", "..a/b..", "%2e%2e", "a  b/ c"]


def tree(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def run_7(tmp_path):
    for i, name in enumerate([*ODD, "deep/er/still", "empty"]):
        path = tmp_path / "run_7" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * i)
    (tmp_path / "run_7" / "half.ravnest-part").write_bytes(b"unfinished")
    return {name: data for name, data in tree(tmp_path / "run_7").items() if "ravnest-part" not in name}


@pytest.mark.parametrize("arguments", [["-r", "run_7", "s3://lab/runs/7"], ["run_7/", "s3://lab/runs/7/"]])
def test_a_folder_there_and_back(s3, server, tmp_path, run_7, arguments):
    said = s3.ok("cp", *arguments)
    assert f"copied {len(run_7)} files" in said
    assert {key: server.get("lab", key) for key in server.keys("lab")} == {
        "runs/7/" + name: data for name, data in run_7.items()
    }
    server.page_keys = 3
    s3.ok("cp", "s3://lab/runs/7/", "back")
    assert tree(tmp_path / "back") == run_7
    sent = server.sent()
    s3.ok("cp", "-r", "s3://lab/runs/7", "back")
    assert server.sent() < sent + 20_000, "only lists and answers to HEAD"


def test_manifests_go_last_either_way(s3, server, tmp_path):
    files = {"0/manifest.json", "0/stage_0.safetensors", "1/manifest.json", "1/stage_0.safetensors"}
    for name in files:
        path = tmp_path / "run" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1")
    s3.ok("cp", "-r", "run", "s3://lab/run")
    s3.ok("cp", "-r", "s3://lab/run", "back")
    for method in ("PUT", "GET"):
        keys = [seen.key for seen in server.seen if seen.method == method and seen.key.startswith("run/")]
        assert len(keys) == 4 and all(key.endswith("manifest.json") for key in keys[2:]), keys


def test_a_folder_needs_to_be_meant(s3, run_7):
    assert "run_7 is a folder; -r copies all that is in it" in s3.fails("cp", "run_7", "s3://lab/runs/7")


def test_an_object_to_a_folder_keeps_its_name_and_one_to_an_object_is_copied(s3, server, tmp_path):
    server.put("lab", "x/a", b"1")
    (tmp_path / "there").mkdir()
    for end, path in [("there", "there/a"), ("new/", "new/a"), ("new/b", "new/b"), (".", "a")]:
        s3.ok("cp", "s3://lab/x/a", end)
        assert (tmp_path / path).read_bytes() == b"1"
    s3.ok("cp", "a", "s3://lab/y/")
    s3.ok("cp", "s3://lab/y/a", "s3://lab/z/")
    assert server.get("lab", "z/a") == b"1"


@pytest.mark.parametrize("key", ["x/../../evil", "x/..", "x//a", "x/a\nb", "x/./a", "x/a\\b"])
def test_an_object_that_could_become_a_file_elsewhere_stops_the_copy_before_it_begins(s3, server, tmp_path, key):
    server.put("lab", "x/0", b"first")
    server.put("lab", key, b"evil")
    assert "is not made into a file: its name has" in s3.fails("cp", "s3://lab/x/", "into")
    assert not (tmp_path / "into").exists()


def test_an_object_with_an_odd_name_can_be_got_as_a_file_with_a_name(s3, server, tmp_path):
    server.put("lab", "x/../b", b"odd")
    s3.ok("cp", "s3://lab/x/../b", "b")
    assert (tmp_path / "b").read_bytes() == b"odd"


def test_lists_are_for_people(s3, server):
    server.put("lab", "run/a", b"1" * 1234)
    server.put("lab", "run/deep/b\x1b[31m", b"1")
    server.put("lab", "z", b"")
    assert [line.split() for line in s3.ok("ls", "s3://lab").splitlines()] == [
        ["size", "changed", "name"],
        ["run/"],
        ["0", "B", "2026-11-19T12:00:00.000Z", "z"],
        ["1", "object,", "0", "B"],
    ]
    said = s3.ok("ls", "-r", "s3://lab/run/")
    assert "1.23 kB" in said and "\x1b" not in said and "2 objects, 1.24 kB" in said
