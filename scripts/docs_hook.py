"""For mkdocs: links that leave docs/, such as to a source file, become plain names, since the site has no sources.

Links between pages stay as they are, and `mkdocs build --strict` checks them.
"""

import re

_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]+)[^)]*\)")


def on_page_markdown(markdown: str, **_) -> str:
    """`[executor.h](../src/ravnest/graph/run/executor.h)` as `src/ravnest/graph/run/executor.h`."""
    return _OUTSIDE.sub(lambda link: f"`{link[2]}`", markdown)
