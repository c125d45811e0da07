"""Where the lines of text of a picture are."""

import itertools
import xml.etree.ElementTree as ET

#: A wide letter of 13 px, and the title's of 22 px.
WIDE, WIDE_TITLE = 7.9, 13.2


def boxes(picture):
    """Return the text and the box of each line of text."""
    for element in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"):
        x, y = float(element.get("x")), float(element.get("y"))
        title = element.get("class") == "title"
        width = len(element.text) * (WIDE_TITLE if title else WIDE)
        left = {"start": x, "middle": x - width / 2, "end": x - width}[element.get("text-anchor")]
        yield element.text, (left, y - (18 if title else 10), left + width, y + 3)


def check_readable(picture):
    """Check that no text overlaps another, or leaves the picture."""
    found = [*boxes(picture)]
    width, height = map(float, ET.fromstring(picture).get("viewBox").split()[2:])
    for text, (left, top, right, bottom) in found:
        assert left >= 0, text
        assert right <= width, text
        assert top >= 0, text
        assert bottom <= height, text
    for (text, a), (other, b) in itertools.combinations(found, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (text, other)
