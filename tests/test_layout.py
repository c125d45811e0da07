"""The source root `constructs` does not hide PyPI's package of the same name."""

from pathlib import Path

import constructs

ROOT = Path(__file__).resolve().parents[1]


def test_constructs_is_pypis():
    """An `__init__.py` in the source root would make it a package, and break every construct."""
    assert not Path(constructs.__file__).is_relative_to(ROOT / "constructs")
