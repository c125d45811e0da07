"""The package imports each public name on first use."""

import subprocess
import sys

import pytest

import embedding_kit


@pytest.mark.parametrize("name", embedding_kit.__all__)
def test_each_public_name_can_be_imported(name):
    """The module of each name in `__all__` exists and defines it."""
    assert getattr(embedding_kit, name).__name__ == name


def test_unknown_names_raise_attribute_error():
    """As in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Endpoint'"):
        _ = embedding_kit.Endpoint  # type: ignore[attr-defined]


def test_reading_settings_does_not_import_the_cdk():
    """The CDK starts Node.js, which takes seconds."""
    program = (
        "import sys, embedding_kit.settings\n"
        "heavy = {'aws_cdk', 'constructs', 'jsii'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from embedding_kit import ModelSettings\n"
        "assert 'aws_cdk' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
