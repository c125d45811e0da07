"""Two generators: Amazon Bedrock, or a small language model in this process."""

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
from botocore.config import Config

from .prompt import RULES

#: As the command `sha256sum` writes it; it comes with the function's code, and not from S3.
SUMS = Path(__file__).resolve().parents[1] / "SHA256SUMS"
#: The last of an answer: OpenAI's `finish_reason`, and the tokens read and written, 0 if unknown.
End = tuple[str, int, int]
#: From roles with texts and the most tokens to pieces of text.
Generator = Callable[[list[tuple[str, str]], int], Iterator[str | End]]
_REASONS = {"end_turn": "stop", "max_tokens": "length", "model_context_window_exceeded": "length"}


def make_generator(model: str) -> Generator:
    """Return that of a folder, which may be in S3, or else that of the name of Bedrock."""
    folder = fetch(model) if model.startswith("s3://") else Path(model)
    return _local(folder) if folder.is_dir() else _bedrock(model)


def _bedrock(model: str) -> Generator:
    config = Config(connect_timeout=3, read_timeout=15, retries={"total_max_attempts": 2})
    client = boto3.client("bedrock-runtime", config=config)

    def generate(said: list[tuple[str, str]], max_tokens: int) -> Iterator[str | End]:
        messages = [{"role": role, "content": [{"text": text}]} for role, text in said]
        limits = {"maxTokens": max_tokens, "temperature": 0.0}
        response = client.converse_stream(
            modelId=model, system=[{"text": RULES}], messages=messages, inferenceConfig=limits
        )
        reason, tokens = "length", dict[str, int]()
        for event in response["stream"]:
            if text := event.get("contentBlockDelta", {}).get("delta", {}).get("text"):
                yield text
            if "messageStop" in event:
                reason = _REASONS.get(event["messageStop"]["stopReason"], "content_filter")
            tokens = event.get("metadata", {}).get("usage", tokens)
        yield reason, tokens.get("inputTokens", 0), tokens.get("outputTokens", 0)

    return generate


def _local(folder: Path) -> Generator:
    import onnxruntime_genai as runtime  # noqa: PLC0415  (Bedrock does without)

    model = runtime.Model(str(folder))
    tokenizer = runtime.Tokenizer(model)
    context = json.loads((folder / "genai_config.json").read_bytes())["model"]["context_length"]

    def generate(said: list[tuple[str, str]], max_tokens: int) -> Iterator[str | End]:
        roles = [("system", RULES), *said]
        messages = json.dumps([{"role": role, "content": text} for role, text in roles])
        prompt = tokenizer.apply_chat_template(messages=messages, add_generation_prompt=True)
        tokens = tokenizer.encode(prompt)
        parameters = runtime.GeneratorParams(model)
        limit = min(max_tokens, context - len(tokens) - 1)
        parameters.set_search_options(max_length=len(tokens) + limit + 1, do_sample=False)
        generator, stream = runtime.Generator(model, parameters), tokenizer.create_stream()
        generator.append_tokens(tokens)
        for count in range(limit):
            generator.generate_next_token()
            if generator.is_done():
                yield "stop", len(tokens), count
                return
            yield stream.decode(generator.get_next_tokens()[0])
        yield "length", len(tokens), limit

    return generate


def fetch(location: str, sums: Path = SUMS) -> Path:
    """Return the files of `s3://BUCKET/FOLDER` that `sums` lists, before SnapStart's snapshot."""
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    folder = Path(tempfile.mkdtemp())
    client = boto3.client("s3")
    for line in sums.read_text().splitlines():
        digest, name = line.split(maxsplit=1)
        path = folder / name.lstrip("*")
        client.download_file(bucket, f"{prefix.rstrip('/')}/{path.name}", str(path))
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise ValueError(f"{path.name} in S3 is another one than was deployed")
    return folder
