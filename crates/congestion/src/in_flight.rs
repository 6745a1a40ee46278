//! The packets that a flow has in flight.
//!
//! ```text
//! packets     │ 7 │ 8 │ 9 │ 10 │ 11 │      32 bytes each
//! departures  │     a     │    b    │      what the flow knew when it sent them
//! ```
//!
//! All packets between two acknowledgements leave with one state of knowledge, so that it is kept once.
//! With hundreds of viewers, the memory that a packet touches costs more than the arithmetic.

use std::collections::VecDeque;
use std::time::Instant;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// When the packet was sent.
    pub(crate) sent: Instant,
    /// Bytes sent in all, this packet included.
    pub(crate) sent_total: u64,
    /// Size of the packet, in bytes.
    bytes: u32,
    /// Number of its departure, which wraps.
    departure: u32,
}

impl Packet {
    /// Returns the size of the packet, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

/// The knowledge of a flow when it sent packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Bytes delivered in all.
    pub(crate) delivered: u64,
    /// When `delivered` had risen last.
    pub(crate) delivered_at: Instant,
    /// When the packet had been sent that was the newest delivered one.
    pub(crate) flight_began: Instant,
    /// The newest delivered packet.
    pub(crate) newest_delivered: Option<DeliveredPacket>,
    /// Bytes lost in all.
    pub(crate) lost: u64,
    /// Whether the application was the limit.
    pub(crate) app_limited: bool,
}

/// The newest packet that had been delivered when another was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveredPacket {
    /// When the packet was sent.
    pub(crate) sent: Instant,
    /// Bytes sent in all by then, this packet included.
    pub(crate) sent_total: u64,
    /// When the packet was acknowledged.
    pub(crate) acknowledged: Instant,
}

/// The packets in flight, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    /// Packets from number `first` on; `None` for one that was acknowledged, lost or discarded.
    packets: VecDeque<Option<Packet>>,
    /// Number of the first packet in `packets`.
    first: u64,
    /// Number of bytes in flight.
    bytes: u64,
    /// Departures of the packets, the oldest first.
    departures: VecDeque<Departure>,
    /// Number of the first one in `departures`, which wraps.
    first_departure: u32,
}

impl InFlight {
    /// Returns the number of bytes in flight.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether packet `number` is newer than all before.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number >= self.first + self.packets.len() as u64
    }

    /// Begins another departure: the next packets that are appended leave with it. Those of which no
    /// packet is in flight are dropped.
    pub(crate) fn depart(&mut self, departure: Departure) {
        let oldest = self.packets.front().and_then(Option::as_ref);
        let kept = match oldest {
            Some(oldest) => oldest.departure,
            None => self.next_departure(),
        };
        while self.first_departure != kept {
            self.departures.pop_front();
            self.first_departure = self.first_departure.wrapping_add(1);
        }
        self.departures.push_back(departure);
    }

    /// Appends packet `number`, which is [new](Self::is_new) and leaves with the latest departure. Numbers may be
    /// left out. `sent_total`: bytes sent in all, this packet included.
    pub(crate) fn push(&mut self, number: u64, sent: Instant, bytes: u32, sent_total: u64) {
        if self.packets.is_empty() {
            self.first = number;
        }
        let next = self.first + self.packets.len() as u64;
        if number > next {
            self.packets.extend((next..number).map(|_| None));
        }
        self.bytes += u64::from(bytes);
        self.packets.push_back(Some(Packet {
            sent,
            sent_total,
            bytes,
            departure: self.next_departure().wrapping_sub(1),
        }));
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "no flow has 2^32 packets in flight"
    )]
    fn next_departure(&self) -> u32 {
        self.first_departure
            .wrapping_add(self.departures.len() as u32)
    }

    /// Reads a part of what sending and feedback read. The returned number has no meaning.
    pub(crate) fn prefetch(&self) -> u64 {
        let end =
            |it: Option<&Option<Packet>>| it.and_then(Option::as_ref).map_or(0, |it| it.sent_total);
        end(self.packets.front()) ^ end(self.packets.back())
    }

    /// Removes a packet; returns `None` if it was removed before.
    pub(crate) fn settle(&mut self, number: u64) -> Option<Packet> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let packet = self.packets.get_mut(place)?.take()?;
        self.bytes -= packet.bytes();
        while let Some(None) = self.packets.front() {
            self.packets.pop_front();
            self.first += 1;
        }
        Some(packet)
    }

    /// Returns what was known when a packet was sent that has been removed since the last one was
    /// appended.
    pub(crate) fn departure_of(&self, packet: &Packet) -> Option<&Departure> {
        let place = packet.departure.wrapping_sub(self.first_departure);
        self.departures.get(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;

    fn departure(delivered: u64, now: Instant) -> Departure {
        Departure {
            delivered,
            delivered_at: now,
            flight_began: now,
            newest_delivered: None,
            lost: 0,
            app_limited: false,
        }
    }

    proptest! {
        #[test]
        fn each_packet_comes_back_with_its_own_departure(
            steps in prop::collection::vec((0u8..4, 0u64..20), 1..400),
        ) {
            let start = Instant::now();
            let mut in_flight = InFlight::default();
            let mut kept = BTreeMap::new();
            let (mut next, mut delivered, mut total) = (7, 0, 0);
            let mut has_news = true;
            for (kind, amount) in steps {
                match kind {
                    0 => {
                        delivered += 1;
                        has_news = true;
                    }
                    1 => {
                        let first = kept.keys().next().copied().unwrap_or_default();
                        let number = first + amount;
                        let packet = in_flight.settle(number);
                        let known = packet.as_ref().and_then(|it| in_flight.departure_of(it));
                        let known = packet.zip(known).map(|(packet, departure)| {
                            (packet.bytes(), packet.sent_total, departure.delivered)
                        });
                        prop_assert_eq!(known, kept.remove(&number));
                    }
                    _ => {
                        // What is empty leaves with new knowledge, as a flow has it.
                        if std::mem::take(&mut has_news) || in_flight.bytes() == 0 {
                            in_flight.depart(departure(delivered, start));
                            prop_assert!(in_flight.departures.len() <= in_flight.packets.len() + 1);
                        }
                        next += amount / 15;
                        total += amount + 1;
                        let sent = start + Duration::from_millis(next);
                        prop_assert!(in_flight.is_new(next));
                        in_flight.push(next, sent, amount as u32 + 1, total);
                        prop_assert!(!in_flight.is_new(next));
                        kept.insert(next, (amount + 1, total, delivered));
                        next += 1;
                    }
                }
                prop_assert_eq!(in_flight.bytes(), kept.values().map(|it| it.0).sum::<u64>());
            }
        }
    }
}
