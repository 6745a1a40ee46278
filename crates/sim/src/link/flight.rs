//! Datagrams in flight, taken out in the order of arrival.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::Nanos;

/// The datagrams in flight. Nearly all keep their order and need no heap.
#[derive(Debug)]
pub(super) struct Flight<T> {
    /// Datagrams that keep their order.
    in_order: VecDeque<Travelling<T>>,
    /// Datagrams that others may overtake.
    held_back: BinaryHeap<Reverse<Travelling<T>>>,
}

/// A datagram in flight, ordered by arrival, then by sending.
#[derive(Debug)]
pub(super) struct Travelling<T> {
    /// When the datagram arrives.
    pub(super) arrival: Nanos,
    /// Number of the datagram in the order of sending.
    pub(super) number: u64,
    /// Size that the sender gave.
    pub(super) bytes: usize,
    /// Time in the queue.
    pub(super) waited: Nanos,
    /// Whether the datagram is marked as congested.
    pub(super) congested: bool,
    /// Datagram that travels over the link.
    pub(super) datagram: T,
}

impl<T> Flight<T> {
    /// Returns an empty flight.
    pub(super) fn new() -> Self {
        Self {
            in_order: VecDeque::new(),
            held_back: BinaryHeap::new(),
        }
    }

    /// Adds a datagram that arrives no earlier than those before it.
    pub(super) fn push(&mut self, travelling: Travelling<T>) {
        self.in_order.push_back(travelling);
    }

    /// Adds a datagram that others may overtake.
    pub(super) fn hold_back(&mut self, travelling: Travelling<T>) {
        self.held_back.push(Reverse(travelling));
    }

    /// Returns the datagram that arrives next.
    pub(super) fn peek(&self) -> Option<&Travelling<T>> {
        let held_back = self.held_back.peek().map(|Reverse(next)| next);
        match (self.in_order.front(), held_back) {
            (Some(next), Some(held_back)) => Some(next.min(held_back)),
            (next, held_back) => next.or(held_back),
        }
    }

    /// Removes and returns the datagram that arrives next.
    pub(super) fn pop(&mut self) -> Option<Travelling<T>> {
        let number = self.peek()?.number;
        if self
            .in_order
            .front()
            .is_some_and(|next| next.number == number)
        {
            return self.in_order.pop_front();
        }
        self.held_back.pop().map(|Reverse(next)| next)
    }

    /// Returns the number of datagrams.
    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.held_back.len()
    }
}

impl<T> Ord for Travelling<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.arrival, self.number).cmp(&(other.arrival, other.number))
    }
}

impl<T> PartialOrd for Travelling<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Travelling<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Travelling<T> {}
