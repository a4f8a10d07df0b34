"""The pages' templates: every string that is put into one is escaped."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from polarlens.report.figures.style import styled, svg

if TYPE_CHECKING:
    import altair as alt
    import jinja2


@cache
def environment() -> "jinja2.Environment":
    """Templates of this package; a name that a template does not get is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader("polarlens.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["whole"] = _whole
    return found


@dataclass(frozen=True)
class Picture:
    """A panel in a page. still: inline SVG. spec: Vega-Lite, from which a script redraws it so that it has hover."""

    name: str
    still: Any
    spec: Mapping[str, Any]


def picture(chart: "alt.LayerChart", name: str, words: str) -> Picture:
    """The chart as inline SVG. Several drawings share one document, so their ids get `name` in front.

    words: what a reader who does not see it is told.
    """
    from markupsafe import Markup, escape

    chart = styled(chart)
    text = svg(chart)
    text = text[text.index("<svg") :]
    text = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    still = Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(words)}"', 1))
    return Picture(name, still, {**chart.to_dict(), "description": words})


def data_link(numbers: str) -> str:
    """Text as an address that holds it."""
    return "data:text/csv;base64," + base64.b64encode(numbers.encode()).decode()


@cache
def bundle() -> Any:
    """The offline bundle of Vega, Vega-Lite and Vega-Embed as a script."""
    import vl_convert
    from markupsafe import Markup

    return Markup(vl_convert.javascript_bundle().replace("</script", "<\\/script"))  # type: ignore[call-arg]


def _whole(text: str) -> str:
    """An interval that is not broken across lines."""
    return text.replace(", ", ",\u00a0")
