"""The texts of the demo's search."""

from tools.local_endpoint.standard_library import standard_library


def test_docstrings_of_the_standard_library():
    """There are thousands of public names with descriptions, sorted and without duplicates."""
    texts = standard_library()
    assert len(texts) > 3000
    assert texts == sorted(set(texts))
    names = [text.partition(": ")[0] for text in texts]
    assert {"asyncio.sleep", "datetime.datetime.strptime", "time.strptime"} <= {*names}
    assert not any(word.startswith("_") for name in names for word in name.split("."))
    assert all("\n" not in text for text in texts)
