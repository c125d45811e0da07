"""The vector space against those that it should be, and the golden vectors."""

import json

import httpx
import pytest

from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.vectors import (
    Spaces,
    check_golden,
    check_space,
    judge_golden,
    judge_space,
)

from .conftest import SPACE, URL, deployed

OTHER = "model@2/int8/abc/384"
GOLDEN = [{"text": "hello world", "prompt": None, "embedding_head": [0.6, 0.8]}]


def serving(space=SPACE, vector=(0.6, 0.8), golden=GOLDEN):
    """Return an endpoint that answers with a vector."""

    def answer(request):
        if request.url.path == "/info":
            return httpx.Response(200, json={"golden": golden})
        return httpx.Response(200, json={"embedding": vector}, headers={"x-vector-space": space})

    return answer


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("stored", "of the stored vectors (--vector-space)"),
        ("last", "of the last use from this machine"),
        ("recorded", "of the last deploy"),
        ("artifact", "of the artifact"),
    ],
)
def test_another_vector_space_is_ill(field, name):
    """The finding has both, and where the other one is from."""
    assert judge_space(Spaces(SPACE, **{field: SPACE})).state == State.OK
    found = judge_space(Spaces(SPACE, **{field: OTHER}))
    assert (found.state, found.found) == (State.ILL, f"{SPACE}, and {OTHER} is that {name}")
    assert ("--accept-vector-space" in found.advice) == (field == "last")


def test_a_space_may_be_given_without_dimensions():
    """As for the client."""
    assert judge_space(Spaces(SPACE, stored=SPACE.removesuffix("/384"))).state == State.OK
    assert judge_space(Spaces(SPACE, stored=SPACE.replace("384", "128"))).state == State.ILL


def test_the_space_is_remembered_until_another_one_is_accepted(facts, aws):
    """A changed space is ill in every run until it is accepted."""
    file = facts().outside.memory
    local = "http://127.0.0.1:9000"
    first = check_space(facts(serving(), url=local))
    assert first.found == f"{SPACE}; remembered for the next time"
    assert json.loads(file.read_text()) == {local: SPACE}
    for _ in range(2):
        assert check_space(facts(serving(OTHER), url=local)).state == State.ILL
    assert check_space(facts(serving(OTHER), url=local, accept_vector_space=True)).state == State.OK
    again = check_space(facts(serving(OTHER), url=local))
    assert again.found == f"{OTHER}; equal to that of the last use from this machine"


def test_a_damaged_memory_is_no_obstacle(facts):
    """It is written again."""
    file = facts().outside.memory
    file.parent.mkdir()
    for content in ("{", "[]"):
        file.write_text(content)
        assert check_space(facts(serving(), url="http://127.0.0.1:9000")).state == State.OK
        assert list(json.loads(file.read_text()).values()) == [SPACE]


def test_the_space_of_the_last_deploy_is_an_output_of_the_stack(facts, aws):
    """The check of the release records it there."""
    deployed(aws, EndpointCheckVectorSpace1A2B=OTHER)
    found = check_space(facts(serving()))
    assert found.found == f"{SPACE}, and {OTHER} is that of the last deploy"


def test_golden_vectors_are_those_that_the_endpoint_lists(facts):
    """Or those of the artifact."""
    assert check_golden(facts(serving())).found == "1 texts, largest difference 0.0000"
    found = check_golden(facts(serving(vector=[0.6, 0.7])))
    assert found.state == State.ILL
    assert "differs from its golden value by 0.1000; allowed: 0.01" in found.found


def test_an_artifact_is_compared(facts, tmp_path):
    """Its golden vectors and its vector space."""
    manifest = {
        "vector_space": OTHER.removesuffix("/384"),
        "golden": [{"text": "a", "prompt": "query", "embedding_head": [0.6, 0.9]}],
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    asked = facts(serving(), artifact=tmp_path, url="http://127.0.0.1:9000")
    assert check_golden(asked).data["difference"] == pytest.approx(0.1)
    assert "is that of the artifact" in check_space(asked).found
    with pytest.raises(SkippedError, match="nowhere is not an artifact"):
        check_golden(facts(serving(), artifact=tmp_path / "nowhere"))


def test_the_prompt_of_a_golden_text_is_sent(facts):
    """By its name, if it has one."""
    sent = []

    def answer(request):
        if request.method == "POST":
            sent.append(json.loads(request.content))
        return serving(golden=[{**GOLDEN[0], "prompt": "query"}])(request)

    check_golden(facts(answer))
    assert sent == [{"text": "hello world"}, {"text": "hello world", "prompt_name": "query"}]


def test_an_endpoint_without_a_list_needs_the_artifact(facts):
    """As one of an earlier version."""
    with pytest.raises(SkippedError, match="give --artifact FOLDER"):
        check_golden(facts(serving(golden=None)))


def test_without_an_answer_vectors_are_skipped(facts):
    """The answer itself is judged elsewhere."""
    for check in (check_space, check_golden):
        with pytest.raises(SkippedError, match="no vector in answer to a signed request"):
            check(facts())


def test_the_largest_difference_counts():
    """Of all texts."""
    found = judge_golden(GOLDEN * 2, [[0.6, 0.8, 0.1], [0.6, 0.811]])
    assert found.data["difference"] == pytest.approx(0.011)
    assert "scripts/rollback" in found.advice


def test_the_url_does_not_need_a_slash(facts):
    """The endpoint's address is the same with and without it."""
    assert facts(url=f"{URL}/").url() == URL
