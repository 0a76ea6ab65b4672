"""Generated parts of a page: what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping

# The models that come with the project; whoever trains others has them in models/, too.
SHIPPED = ("models/kachuful", "models/universal")


def with_parts(page: str, parts: Mapping[str, str], name: str) -> str:
    """Return a page with each of its parts written anew; `name` is the page's, for errors.

    Raises ValueError where a part has no place in the page, or several.
    """
    for part, text in parts.items():
        begin, end = f"<!-- begin {part} -->", f"<!-- end {part} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
        new = f"{begin}\n{text}\n{end}"
        page, count = pattern.subn(lambda _, new=new: new, page)
        if count != 1:
            raise ValueError(f"{name}: the part {part!r} has {count} places (allowed: 1)")
    return page
