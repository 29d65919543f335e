"""Objects over a socket: whole ones, in order, or an error that says what is missing."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.isolated.link import Link, LinkClosed, pack

VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Spoilt:
    """Can be pickled, and not be read again."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, ("no number",))


@pytest.fixture
def ends() -> Iterator[tuple[Link, socket.socket]]:
    """A link, and the bare socket at its other end."""
    one, other = socket.socketpair()
    with one, other:
        yield Link(one), other


@given(st.lists(VALUES, max_size=5), st.integers(1, 50))
def test_whatever_is_sent_arrives_in_order_however_it_is_cut(values: list[Any], cut: int) -> None:
    one, other = socket.socketpair()
    with one, other:
        stream = b"".join(map(pack, values))
        link = Link(one)
        received = []
        for begin in range(0, len(stream), cut):
            other.sendall(stream[begin : begin + cut])
            try:
                while True:
                    received.append(link.receive(0.0))
            except TimeoutError:
                continue
        while len(received) < len(values):
            received.append(link.receive(1.0))
    assert received == values


def test_more_than_a_socket_holds_crosses(ends: tuple[Link, socket.socket]) -> None:
    link, other = ends
    value = b"x" * (5 << 20)
    sender = threading.Thread(target=Link(other).send, args=(value,))
    sender.start()
    assert link.receive(20.0) == value
    sender.join()


def test_a_reader_that_does_not_read_is_given_up(ends: tuple[Link, socket.socket]) -> None:
    link, _ = ends
    with pytest.raises(TimeoutError):
        link.send(b"x" * (5 << 20), 0.1)


def test_what_cannot_be_pickled_or_read_leaves_the_link_usable(
    ends: tuple[Link, socket.socket],
) -> None:
    link, other = ends
    with pytest.raises((pickle.PicklingError, AttributeError)):
        link.send(lambda: None)
    Link(other).send(Spoilt())
    Link(other).send("after it")
    with pytest.raises(ValueError, match="no number"):
        link.receive(1.0)
    assert link.receive(1.0) == "after it"


def test_the_end_of_the_other_side_is_told_on_both_ways(
    ends: tuple[Link, socket.socket],
) -> None:
    link, other = ends
    other.sendall(pack("last words")[:-1])
    other.close()
    with pytest.raises(LinkClosed):
        link.receive(1.0)
    with pytest.raises(LinkClosed):
        link.send("anybody?")
