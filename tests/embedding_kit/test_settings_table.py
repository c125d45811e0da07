"""The table of the settings in the docs."""

from pathlib import Path

from embedding_kit.environment import Environment
from embedding_kit.settings_table import settings_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"


def test_the_page_says_what_the_types_say():
    """`python -m embedding_kit.settings_table > docs/settings.md` writes it anew."""
    assert PAGE.read_text() == settings_table()


def test_every_setting_stands_in_it():
    """No group of settings is left out."""
    page = settings_table()
    assert all(f"`{name}`" in page or f"`[{name}]" in page for name in _names(Environment))


def _names(model) -> set[str]:
    return {name for name, field in model.model_fields.items() if not field.exclude}


def test_defaults_and_bounds_are_written_as_the_file_would():
    """A line of the table can be copied into an environment's file."""
    page = settings_table()
    assert "| `memory_mb` | a whole number from 128 to 10240 | `2048` |" in page
    assert (
        '| `timeout` | a whole number and a unit of ms, s, m, h or d, such as "30s" | `"30s"` |'
        in page
    )
    assert '| `truncate` | one of "refuse", "right", "left" | `"refuse"` |' in page
    assert "#### `[[cold_start.schedule]]`" in page or "### `[[cold_start.schedule]]`" in page
