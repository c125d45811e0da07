"""Take search.png of the page that `scripts/serve` serves, with Chromium.

scripts/serve --documents docs/examples/handbook --metadata year
python -m docs.pictures.search_page
"""

from pathlib import Path

from tests.tools.local_endpoint.browser import browser

_PAGE = "http://127.0.0.1:9000/#q=how+often+do+I+clean+the+kettle%3F&mode=hybrid"


def main() -> None:
    """Write the picture."""
    with browser() as page:
        page.show(width=960, height=552)
        page.open(_PAGE)
        page.wait("document.querySelectorAll('.hit').length === 3")
        # Without the times, which are those of one request.
        page.value("document.getElementById('status').textContent = '3 results'")
        page.picture(Path(__file__).with_name("search.png"))


if __name__ == "__main__":
    main()
