"""How long the model takes for a token, measured over the last runs."""

__all__ = ["MeasuredPace"]

#: Tokens that say something: fewer are the first runs, which also read the weights.
_EVIDENCE = 1024
#: Tokens after which older runs count half: some seconds of a busy worker.
_HALF_LIFE = 1 << 14


class MeasuredPace:
    """Seconds of one worker for one token, padding included."""

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0

    def measured(self, tokens: int, seconds: float) -> None:
        """Add a run."""
        self._tokens += tokens
        self._seconds += seconds
        if self._tokens > 2 * _HALF_LIFE:
            self._tokens /= 2
            self._seconds /= 2

    @property
    def seconds_per_token(self) -> float | None:
        """The pace; None before enough was measured."""
        return self._seconds / self._tokens if self._tokens >= _EVIDENCE else None
