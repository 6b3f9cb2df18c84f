"""Tables that stay tables to a screen reader when a narrow screen shows their rows one below the other.

Such a layout needs `display: block`, and some browsers take an element's part in a table for what its layout says.
Roles tell it in so many words. They are put into the templates as these are compiled, so that none can forget them.
"""

import re
from typing import Final

from jinja2.ext import Extension

_ROLES: Final = (
    (re.compile(r"<(table)(?=[\s>])"), "table"),
    (re.compile(r"<(thead|tbody|tfoot)(?=[\s>])"), "rowgroup"),
    (re.compile(r"<(tr)(?=[\s>])"), "row"),
    (re.compile(r"<(td)(?=[\s>])"), "cell"),
    (re.compile(r'<(th)(?=\s[^>]*\bscope="row")'), "rowheader"),
    (re.compile(r'<(th)(?=\s[^>]*\bscope="col")'), "columnheader"),
)


class TableRoles(Extension):
    """Adds the role of each part of a table to the source of a template."""

    def preprocess(self, source: str, _name: str | None, _filename: str | None = None) -> str:
        """Return the source with roles."""
        for element, role in _ROLES:
            source = element.sub(rf'<\1 role="{role}"', source)
        return source
