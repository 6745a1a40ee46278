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

/// What a flow knew when it sent packets.
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

    /// Appends packet `number`, which is [new](Self::is_new). Numbers may be left out. `sent_total`: bytes sent in
    /// all, this packet included.
    pub(crate) fn push(
        &mut self,
        number: u64,
        sent: Instant,
        bytes: u32,
        sent_total: u64,
        departure: &Departure,
    ) {
        if self.packets.is_empty() {
            self.first = number;
        }
        let next = self.first + self.packets.len() as u64;
        if number > next {
            self.packets.extend((next..number).map(|_| None));
        }
        self.bytes += u64::from(bytes);
        let departure = self.departure(departure);
        self.packets.push_back(Some(Packet {
            sent,
            sent_total,
            bytes,
            departure,
        }));
    }

    /// Returns the number of a departure, which becomes the newest one, and drops those of which no packet is in
    /// flight.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "no flow has 2^32 packets in flight"
    )]
    fn departure(&mut self, departure: &Departure) -> u32 {
        let oldest = self.packets.iter().flatten().next();
        let kept = match oldest {
            Some(oldest) => oldest.departure,
            None => self
                .first_departure
                .wrapping_add(self.departures.len() as u32),
        };
        while self.first_departure != kept {
            self.departures.pop_front();
            self.first_departure = self.first_departure.wrapping_add(1);
        }
        if self.departures.back() != Some(departure) {
            self.departures.push_back(*departure);
        }
        let last = (self.departures.len() - 1) as u32;
        self.first_departure.wrapping_add(last)
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
