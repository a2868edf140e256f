"""What the docs say is so: sentences that they quote are ones that the sources print."""

import re

import pytest
from quoted_messages import ROOT, pieces, where_raised


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
