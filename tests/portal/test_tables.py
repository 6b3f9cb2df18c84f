"""Tables are tables to screen readers, whatever their layout is."""

import re

import pytest

from payaccept.portal.assets import Assets
from payaccept.portal.rendering import environment

PARTS = {
    "table": "table",
    "thead": "rowgroup",
    "tbody": "rowgroup",
    "tfoot": "rowgroup",
    "tr": "row",
    "td": "cell",
}


def test_each_part_of_a_table_gets_its_role():
    made = environment(Assets()).from_string(
        '<table class="table"><caption>c</caption><thead><tr><th scope="col">a</th></tr></thead>'
        '<tbody><tr class="x"><th class="y" scope="row">b</th><td>c</td></tr></tbody></table>'
    )
    assert made.render() == (
        '<table role="table" class="table"><caption>c</caption><thead role="rowgroup"><tr role="row">'
        '<th role="columnheader" scope="col">a</th></tr></thead><tbody role="rowgroup"><tr role="row" class="x">'
        '<th role="rowheader" class="y" scope="row">b</th><td role="cell">c</td></tr></tbody></table>'
    )


def sources() -> list[str]:
    return [name for name in environment(Assets()).list_templates() if name.endswith(".html")]


@pytest.mark.parametrize("name", sources())
def test_every_heading_cell_of_a_template_says_of_what(name):
    made = environment(Assets())
    source = made.preprocess(made.loader.get_source(made, name)[0])
    for element in re.findall(r"<(?:table|thead|tbody|tfoot|tr|td|th)(?=[\s>])[^>]*>", source):
        assert re.match(r'<\w+ role="[a-z]+"', element), element
