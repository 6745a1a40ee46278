//! Datagrams on their way, out in the order of arrival.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::Nanos;

/// What is on its way. Nearly all keep their order and need no heap.
#[derive(Debug)]
pub(super) struct Flight<T> {
    in_order: VecDeque<Travelling<T>>,
    held_back: BinaryHeap<Reverse<Travelling<T>>>,
}

/// A datagram, ordered by arrival, then by sending.
#[derive(Debug)]
pub(super) struct Travelling<T> {
    pub(super) arrival: Nanos,
    pub(super) number: u64,
    pub(super) bytes: usize,
    pub(super) waited: Nanos,
    pub(super) congested: bool,
    pub(super) datagram: T,
}

impl<T> Flight<T> {
    pub(super) fn new() -> Self {
        Self {
            in_order: VecDeque::new(),
            held_back: BinaryHeap::new(),
        }
    }

    /// One that arrives no earlier than those before it.
    pub(super) fn push(&mut self, travelling: Travelling<T>) {
        self.in_order.push_back(travelling);
    }

    /// One that others may overtake.
    pub(super) fn hold_back(&mut self, travelling: Travelling<T>) {
        self.held_back.push(Reverse(travelling));
    }

    pub(super) fn peek(&self) -> Option<&Travelling<T>> {
        let held_back = self.held_back.peek().map(|Reverse(next)| next);
        match (self.in_order.front(), held_back) {
            (Some(next), Some(held_back)) => Some(next.min(held_back)),
            (next, held_back) => next.or(held_back),
        }
    }

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
