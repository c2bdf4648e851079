"""What comes back from an operation on several things, of which some may have failed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from barnabas.errors import KafkaError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", covariant=True)
T = TypeVar("T")


class Results(Mapping[K, V], Generic[K, V]):
    """What succeeded, by key, like a dict; and in `errors` what did not, by key.

    Looking up a key that failed raises its error.
    """

    __slots__ = ("_values", "errors")

    def __init__(self, values: dict[K, V], errors: dict[K, KafkaError]) -> None:
        self._values = values
        self.errors = errors

    def __getitem__(self, key: K) -> V:
        error = self.errors.get(key)
        if error is not None:
            raise error
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        # The inherited one looks the key up, which raises for those that failed.
        return key in self._values

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def raise_errors(self) -> None:
        """Raise when anything failed: the error itself when one did; else one that holds them all.

        That is an error of the class that all of them have in common, or a `PartialFailureError` when they differ.
        In any case its `errors` has the errors by key and its `results` what succeeded; of a single one that failed
        in part, of its parts.
        """
        if not self.errors:
            return
        errors = list(self.errors.values())
        if len(errors) == 1:
            raised = errors[0]
        else:
            classes = {type(error) for error in errors}
            text = "; ".join(dict.fromkeys(map(str, errors)))
            raised = classes.pop()(text) if len(classes) == 1 else PartialFailureError(text)
        if not hasattr(raised, "errors"):
            raised.errors = dict(self.errors)  # type: ignore[attr-defined]  # documented above
            raised.results = dict(self._values)  # type: ignore[attr-defined]  # documented above
        raise raised

    def __repr__(self) -> str:
        return f"Results({self._values}, errors={self.errors})"


class FromBrokers(dict[str, T]):
    """What all brokers together listed, by name, in alphabetical order; `errors` has what made a broker fail, by id."""

    def __init__(self, listings: Results[int, Sequence[T]], name_of: Callable[[T], str]) -> None:
        found = [thing for listing in listings.values() for thing in listing]
        super().__init__((name_of(thing), thing) for thing in sorted(found, key=name_of))
        self.errors = listings.errors


class PartialFailureError(KafkaError):
    """Several things failed, for different reasons: `errors` has them by key, `results` what succeeded."""
