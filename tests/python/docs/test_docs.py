"""What the docs say is so: the sentences, flags, keys and defaults in them are those of the sources and the command."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from support.command import run
from support.quoted_messages import ROOT, pieces, where_raised

import ravnest

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OUTSIDE_OF_THE_SITE = [ROOT / "CONTRIBUTING.md", ROOT / "src/README.md", *sorted(ROOT.glob("examples/*/README.md"))]


def quotations(page: str) -> list[str]:
    """The sentences in code marks in the first column of a page's tables of messages."""
    found, quoting = [], False
    for line in (ROOT / "docs" / page).read_text().splitlines():
        cells = line.split(" | ")
        if not line.startswith("|"):
            quoting = False
        elif cells[0] in ("| sentence", "| note"):
            quoting = True
        elif quoting:
            found += re.findall(r"`([^`]+)`", cells[0])
    return found


def test_every_sentence_of_the_page_on_troubles_is_printed_somewhere():
    quoted = quotations("troubleshooting.md")
    assert len(quoted) > 100
    unknown = [sentence for sentence in quoted if not where_raised(sentence)]
    assert not unknown, "not printed by any source:\n" + "\n".join(unknown)


@pytest.mark.parametrize(
    "changed",
    [
        "the labels of node_2 end after N batches, but node_0 sends ...: both need the same data",
        "waiting for node_1, since N s now",
        "has no labels: node_2 computes the loss",
    ],
)
def test_a_sentence_that_was_changed_is_not_found(changed):
    assert where_raised(changed) is None


def test_names_and_numbers_of_a_quotation_are_not_looked_for():
    assert pieces("node_1 has 2.5 GB, but X needs N: ...") == ["has", "GB, but", "needs"]


def test_links_of_pages_outside_of_the_site_lead_somewhere():
    for page in [ROOT / "README.md", *OUTSIDE_OF_THE_SITE]:
        links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], page


def test_every_file_of_the_repository_that_a_page_names_exists():
    headers = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[a-z]*/**/*.h") if "build" not in path.parts]
    for page in [*PAGES, ROOT / "src/README.md", ROOT / "CONTRIBUTING.md"]:
        code = re.findall(r"`([^`\n]+)`", page.read_text())
        named = {name for name in code if re.fullmatch(r"[\w/]+\.h", name)} - {"torch/torch.h"}
        assert [name for name in named if not any(header.endswith(f"/{name}") for header in headers)] == [], page
        named = {
            name
            for name in code
            if re.match(r"(scripts|tests|benchmarks|examples|cmake|cli|python|docs)/[\w./]+$", name)
        }
        assert [name for name in named if not (ROOT / name).exists()] == [], page


def without_code(text: str) -> str:
    """The page's own words, without what is between code marks or in a block."""
    return re.sub(r"^ *```.*?^ *```|`[^`]+`", "", text, flags=re.S | re.M)


def uneven_rows(text: str) -> list[str]:
    """The rows of a page's tables that have not as many cells as the table's first."""
    found, columns = [], None
    for line in without_code(text).splitlines():
        if not line.startswith("|"):
            columns = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        columns = columns or cells
        if cells != columns:
            found.append(line)
    return found


def blanks(text: str) -> list[str]:
    """Words such as MEDIAN_MS outside of code: what somebody meant to fill in."""
    return re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", without_code(text))


@pytest.mark.parametrize("page", [*PAGES, *OUTSIDE_OF_THE_SITE], ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_whole_tables_and_nothing_to_be_filled_in(page: Path):
    assert uneven_rows(page.read_text()) == []
    assert blanks(page.read_text()) == []


def test_a_row_that_lacks_cells_and_a_word_to_be_replaced_are_found():
    table = "| what | ms | ratio |\n|---|---|---|\n| `a | b` | 2 | 0.5 |\n| digits | DIGITS |\n\n| another |\n"
    assert uneven_rows(table) == ["| digits | DIGITS |"]
    assert blanks("They took MEDIAN_MS with `OMP_NUM_THREADS` at 1.\n```\nexport MASTER_PORT=1\n```\n") == ["MEDIAN_MS"]


def test_every_benchmark_is_run_by_the_one_that_runs_all_or_named_there():
    folder = ROOT / "benchmarks"
    programs = {path.name for path in folder.glob("*.py") if 'if __name__ == "__main__":' in path.read_text()}
    assert len(programs) > 10
    named = set(re.findall(r"\w+\.py", (folder / "run").read_text()))
    assert programs - named == set(), "neither run by benchmarks/run nor named as an exception"
    assert named - programs == set(), "not there"


@cache
def flags_of(command: str) -> set[str]:
    """What `ravnest COMMAND --help` lists."""
    return set(re.findall(r"--[a-z-]+", run(*command.split(), "--help", cwd=ROOT).stdout))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_flag_that_a_page_gives_to_a_command_exists(page: Path):
    text = page.read_text()
    lines = re.findall(r"^[$] *(.+)$|^(ravnest .+)$|`([^`]+)`", text, re.M)
    for line in ("".join(each) for each in lines):
        for command, arguments in re.findall(
            r"\bravnest (checkpoint [a-z]+|[a-z]+)\b((?: [^#;|\n]*)?)", line.split(" -- ")[0]
        ):
            unknown = set(re.findall(r"--[a-z-]+", arguments)) - flags_of(command)
            assert not unknown, line


def train_toml(with_examples: bool) -> dict:
    """The file with every key in command.md: its defaults, or also the examples, which stand there behind `# `."""
    block = re.search(r"```toml\n(.*?)```", (ROOT / "docs/command.md").read_text(), re.S)[1]
    return tomllib.loads(re.sub(r"^# (?=\w+ = )", "", block, flags=re.M) if with_examples else block)


def cpp_fields(struct: str) -> dict[str, str]:
    """Name -> initial value, of the fields of a struct of the C++ core that have one."""
    for header in (ROOT / "src").rglob("*.h"):
        if body := re.search(rf"^struct {struct} {{(.*?)^}};", header.read_text(), re.S | re.M):
            return dict(re.findall(r"(\w+) = ([^;{}]+);", body[1]))
    raise AssertionError(f"no struct {struct}")


@pytest.mark.parametrize(
    ("table", "structs"),
    [("", ["TrainConfig"]), ("outer", ["OuterOptimizerConfig"]), ("data", ["DataConfig", "DataOptions"])],
    ids=["top", "outer", "data"],
)
def test_the_page_on_the_command_shows_the_defaults_of_train_toml(table, structs):
    shown = train_toml(with_examples=False)
    shown = shown[table] if table else {key: value for key, value in shown.items() if not isinstance(value, dict)}
    fields = {key: value for struct in structs for key, value in cpp_fields(struct).items()}
    # Not written as a number, a word or a yes: an enumeration, whose first member is the default.
    shown = {key: value for key, value in shown.items() if (table, key) not in {("", "compression"), ("outer", "name")}}
    assert shown == {key: tomllib.loads(f"value = {fields[key]}")["value"] for key in shown}


def test_the_page_on_the_command_has_every_key_of_train_toml():
    source = next(path for path in (ROOT / "src").rglob("*.cpp") if "kDataKeys = {" in path.read_text()).read_text()

    def keys(name):
        return set(re.findall(r'"(\w+)"', re.search(rf"\b{name} = {{(.*?)}};", source, re.S)[1]))

    shown = train_toml(with_examples=True)
    assert set(shown) == keys("kKeys")
    assert set(shown["outer"]) == keys("kOuterKeys")
    assert set(shown["data"]) == keys("kDataKeys")


def test_the_python_reference_has_every_public_name():
    shown = re.findall(r"^::: ([\w.]+)", (ROOT / "docs/api.md").read_text(), re.M)
    # The function shares its name with the package that it is in.
    shown = {name.removesuffix(".capture.capture") for name in shown}
    assert shown == {f"ravnest.{name}" for name in ravnest.__all__ if name != "__version__"}


def test_the_figures_of_the_readme_are_those_of_the_page_of_figures():
    walk = re.search(r"## The walk-through\n(.*?)\n## ", (ROOT / "docs/figures.md").read_text(), re.S)[1]
    shown = re.findall(
        r"\| of (?:the )?(.+?)(?: on one core)? \| \*\*(.+?) times\*\*", (ROOT / "README.md").read_text()
    )
    assert len(shown) == 2
    for peer, ratio in shown:
        measured = re.search(rf"^\| .*against (?:the )?{peer}.*?\| *(?:[\d.]+k samples/s)? *\| ([\d.]+) \|", walk, re.M)
        assert f"{float(measured[1]):.{len(ratio.partition('.')[2])}f}" == ratio
