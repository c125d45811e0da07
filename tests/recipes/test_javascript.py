"""Each JavaScript recipe on docs/recipes.md receives the vectors of the kit's client."""

import pytest

from tests.docs.pages import RECIPES, SERVED, blocks, run, sections

from .conftest import KEYS

pytestmark = pytest.mark.slow

PROGRAMS = sections(RECIPES, "js", level=3)
SIGNED_FETCH = blocks(RECIPES.read_text(encoding="utf-8"), "js")[0]


def test_every_recipe_has_a_program():
    """The first program of the page is the module that the others import."""
    assert "export async function signedFetch" in SIGNED_FETCH
    assert len(PROGRAMS) == len(blocks(RECIPES.read_text(encoding="utf-8"), "js")) - 1


@pytest.mark.parametrize("title", PROGRAMS)
def test_vectors_are_those_of_the_client(title, served, node_modules, printed_vectors, tmp_path):
    """The library's vectors are equal to the client's."""
    (tmp_path / "node_modules").symlink_to(node_modules)
    (tmp_path / "signed-fetch.mjs").write_text(SIGNED_FETCH)
    program = PROGRAMS[title].replace(SERVED, served.url)
    (tmp_path / "recipe.mjs").write_text(program + "\nconsole.log(JSON.stringify(vectors));")
    printed_vectors(run(["node", "recipe.mjs"], tmp_path, **KEYS))
