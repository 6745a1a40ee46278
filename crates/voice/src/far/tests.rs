use super::*;
use crate::stamps::{
    DuplicateReason, DuplicateRecord, Operation, PlayoutStamps, SendStamps, SignalDelay,
};
use glassline_media::Ssrc;
use glassline_sim::{Conditions, Datagram, End, Network, Node, Simulation};
use proptest::prelude::*;
use std::net::SocketAddr;

fn duration(most_ns: u64) -> impl Strategy<Value = Duration> {
    (0..=most_ns).prop_map(Duration::from_nanos)
}

fn signal() -> impl Strategy<Value = SignalDelay> {
    let part = || duration(1_000_000_000);
    (part(), part(), part()).prop_map(|(resample, preprocess, encode)| SignalDelay {
        resample,
        preprocess,
        encode,
    })
}

/// A time, and others less than half a minute from it.
fn times<const N: usize>() -> impl Strategy<Value = [u64; N]> {
    let near = prop::array::uniform::<_, N>(0..30_000_000_000u64);
    (0..1u64 << 61, near).prop_map(|(base, all)| all.map(|it| base + it))
}

prop_compose! {
    fn spoken()(
        timestamp: u64,
        duration in duration(1_000_000_000),
        at in times::<11>(),
        steps: [bool; 5],
        signal in signal(),
        encoded_something: bool,
    ) -> SendStamps<u64> {
        let step = |place: usize| steps[place].then_some(at[6 + place]);
        SendStamps {
            timestamp,
            duration,
            captured: at[0],
            delivered: at[1],
            framed: at[2],
            preprocessed: at[3],
            encode_began: at[4],
            encoded: at[5],
            enqueued: step(0),
            paced: step(1),
            handed_over: step(2),
            dequeued: step(3),
            sent: step(4),
            signal,
            encoded_something,
        }
    }
}

prop_compose! {
    fn heard()(
        ssrc: u32,
        timestamp: u64,
        sequence: Option<u16>,
        at in times::<6>(),
        took in prop::array::uniform3(duration(60_000_000_000)),
        operation in prop::sample::select(&[
            Operation::Normal, Operation::Late, Operation::Repeated,
        ][..]),
        signal in signal(),
    ) -> PlayoutStamps<u64> {
        PlayoutStamps {
            ssrc: Ssrc(ssrc),
            timestamp,
            sequence,
            arrived: at[0],
            opened: at[1],
            inserted: at[2],
            pulled: at[3],
            decode: took[0],
            mix: took[1],
            resample: took[2],
            called: at[4],
            played: at[5],
            operation,
            signal,
        }
    }
}

prop_compose! {
    fn again()(
        ssrc: u32,
        timestamp: u32,
        at in 0..1u64 << 62,
        why in prop::sample::select(&[
            DuplicateReason::Duplicate, DuplicateReason::Retransmission, DuplicateReason::Redundant, DuplicateReason::Late,
        ][..]),
    ) -> DuplicateRecord<u64> {
        DuplicateRecord { ssrc: Ssrc(ssrc), timestamp, at, why }
    }
}

fn record() -> impl Strategy<Value = Record<u64>> {
    let at = || 0..1u64 << 62;
    prop_oneof![
        (any::<u32>(), spoken()).prop_map(|(ssrc, it)| Record::Sent(Ssrc(ssrc), it)),
        heard().prop_map(Record::Played),
        again().prop_map(Record::Duplicate),
        at().prop_map(Record::CaptureCalled),
        at().prop_map(Record::PlayoutCalled),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn records_come_out_as_they_went_in(
        all in prop::collection::vec(record(), 0..40),
        base: u64,
        dropped: u64,
    ) {
        let mut writer = Writer::new(dropped, base);
        let mut written = Vec::new();
        for record in &all {
            match writer.push(record) {
                Ok(()) => written.push(*record),
                Err(Unwritten::Full) => break,
                Err(Unwritten::OutOfRange) => prop_assert!(false, "{record:?}"),
            }
        }
        let message = writer.finish();
        prop_assert!(message.len() <= 1_000);
        prop_assert!(written.len() == all.len() || written.len() >= 5);
        let records = written;
        prop_assert_eq!(wire::parse(&message), Ok(Message::Records { dropped, records }));
    }

    #[test]
    fn any_message_is_refused_or_within_bounds(
        message in prop::collection::vec(any::<u8>(), 0..300),
        kind in 1u8..3,
    ) {
        let mut message = message;
        let _ = wire::parse(&message);
        // The same, past the door.
        message.splice(..0, [wire::VERSION, kind]);
        let now = Instant::now();
        let mut far = FarEnd::new(now, true);
        let taken = far.receive(Channel::Records, &message, now);
        prop_assert_eq!(taken.is_err(), far.report().refused == 1);
        prop_assert!(far.report.received <= 300);
    }

    /// Messages that were cut off or changed on their way do no harm, either.
    #[test]
    fn a_damaged_message_is_refused_or_another(
        all in prop::collection::vec(record(), 1..20),
        at: prop::sample::Index,
        with: u8,
    ) {
        let mut writer = Writer::new(0, 1 << 40);
        for record in &all {
            let _ = writer.push(record);
        }
        let mut message = writer.finish();
        let at = at.index(message.len());
        let _ = wire::parse(&message[..at]);
        message[at] ^= with;
        if let Ok(Message::Records { records, .. }) = wire::parse(&message) {
            let mut again = Writer::new(0, 0);
            for record in &records {
                let written = again.push(record);
                prop_assert_ne!(written, Err(Unwritten::OutOfRange), "{:?}", record);
            }
        }
    }
}

fn called(at: u64) -> Record<u64> {
    Record::CaptureCalled(at)
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let cases: [(&[u8], Malformed); 10] = [
        (&[], Malformed::Truncated { what: "a version" }),
        (&[2, 1, 0], Malformed::Version { theirs: 2 }),
        (&[1], Malformed::Truncated { what: "a kind" }),
        (&[1, 1], Malformed::Truncated { what: "a hello" }),
        (
            &[1, 9],
            Malformed::Kind {
                kind: 9,
                of: "message type",
            },
        ),
        (&[1, 2, 0], Malformed::Truncated { what: "a base" }),
        (
            &[1, 2, 0, 0, 7],
            Malformed::Kind {
                kind: 7,
                of: "record type",
            },
        ),
        (&[1, 2, 0, 0, 4], Malformed::Truncated { what: "a time" }),
        // One before the epoch.
        (
            &[1, 2, 0, 0, 4, 1],
            Malformed::OutOfRange {
                what: "a time",
                value: u64::MAX,
            },
        ),
        (
            &[1, 2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255],
            Malformed::OutOfRange {
                what: "what was dropped",
                value: u64::MAX,
            },
        ),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(wire::parse(bytes), Err(wanted), "{bytes:?}");
    }
    let long = vec![1; wire::MESSAGE_BYTES_MAX + 1];
    let bytes = long.len();
    assert_eq!(wire::parse(&long), Err(Malformed::TooLong { bytes }));
    let mut many = vec![1, 2, 0, 0];
    many.extend([4, 2].repeat(1_025));
    assert_eq!(wire::parse(&many), Err(Malformed::TooMany));
    many.truncate(many.len() - 2);
    assert!(wire::parse(&many).is_ok());
}

#[test]
fn what_no_far_end_would_take_is_not_written() {
    let mut writer = Writer::new(0, 0);
    assert_eq!(writer.push(&called(1 << 62)), Err(Unwritten::OutOfRange));
    let spoken = SendStamps {
        timestamp: 0,
        duration: Duration::from_millis(10),
        captured: 0,
        delivered: 1,
        framed: 2,
        preprocessed: 3,
        encode_began: 4,
        // A machine slept.
        encoded: 61_000_000_000,
        enqueued: None,
        paced: None,
        handed_over: None,
        dequeued: None,
        sent: None,
        signal: SignalDelay::default(),
        encoded_something: true,
    };
    let of = |spoken| Record::Sent(Ssrc(1), spoken);
    assert_eq!(writer.push(&of(spoken)), Err(Unwritten::OutOfRange));
    let long = SendStamps {
        duration: Duration::from_secs(2),
        encoded: 5,
        ..spoken
    };
    assert_eq!(writer.push(&of(long)), Err(Unwritten::OutOfRange));
    assert!(writer.is_empty());
}

/// One end, on a host with a clock of its own.
struct Host {
    far: FarEnd,
    end: End,
    /// How far its clock is ahead of the network's.
    offset: Duration,
    /// When its channels open, until they have.
    opens: Option<Instant>,
    sent: usize,
}

/// First byte of a datagram, before a message.
const CHANNELS: [Channel; 2] = [Channel::Records, Channel::Clock];

impl Node for Host {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.end.address()
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        let channel = CHANNELS[usize::from(datagram.bytes[0])];
        let taken = self
            .far
            .receive(channel, &datagram.bytes[1..], now + self.offset);
        taken.expect("ours");
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        if self.opens.is_some() {
            return None;
        }
        let now = now + self.offset;
        let records = self.far.poll_records(now).map(|message| (0, message));
        let (channel, message) = records.or_else(|| Some((1, self.far.poll_clock(now)?)))?;
        self.sent += 1;
        let bytes = [&[channel], &message[..]].concat();
        Some(Datagram::between_ends(self.end, bytes))
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let due = self.far.poll_timeout().map(|at| at - self.offset);
        self.opens.or(due)
    }

    // Polling does what is due.
    fn handle_timeout(&mut self, _: Instant) {
        self.opens = None;
    }

    fn state(&self) -> String {
        format!("{:?}", self.far.report())
    }
}

/// Two ends on an ideal path; the second one's clock differs.
struct Ends {
    network: Network,
    hosts: [Host; 2],
}

const OFFSET: Duration = Duration::from_secs(1_000);

impl Simulation for Ends {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        let [a, b] = &mut self.hosts;
        run(&mut self.network, &mut [a, b])
    }
}

impl Ends {
    fn new(wants_records: [bool; 2]) -> Self {
        let network = Network::pair(Conditions::default(), 1);
        let start = network.now();
        let host = |end, offset, wants_records| Host {
            far: FarEnd::new(start + offset - Duration::from_secs(10), wants_records),
            end,
            offset,
            // The second hears the first one's hello before it says its own.
            opens: (end == End::B).then(|| start + Duration::from_millis(1)),
            sent: 0,
        };
        Self {
            network,
            hosts: [
                host(End::A, Duration::ZERO, wants_records[0]),
                host(End::B, OFFSET, wants_records[1]),
            ],
        }
    }

    fn now(&self, end: usize) -> Instant {
        self.network.now() + self.hosts[end].offset
    }

    /// Lets `time` pass; counts what each end sent.
    fn run(&mut self, time: Duration) -> [usize; 2] {
        self.run_for(time);
        self.hosts
            .each_mut()
            .map(|host| std::mem::take(&mut host.sent))
    }
}

#[test]
fn where_nobody_asks_nothing_but_a_hello_is_sent() {
    let mut ends = Ends::new([false, false]);
    assert_eq!(ends.run(Duration::from_secs(10)), [1, 1]);
    let now = ends.now(0);
    ends.hosts[0].far.push(&Record::CaptureCalled(now), now);
    assert_eq!(ends.hosts[0].far.poll_timeout(), None);
    assert_eq!(ends.run(Duration::from_secs(10)), [0, 0]);
    assert!(ends.hosts[0].far.report().is_there && !ends.hosts[0].far.report().is_requested);
}

#[test]
fn ends_that_come_at_different_times_still_meet() {
    let start = Instant::now();
    let after = |s: u64| start + Duration::from_secs(s);
    let mut early = FarEnd::new(start, true);
    let hello = |far: &mut FarEnd, at| {
        let message = far.poll_records(at)?;
        assert!(matches!(wire::parse(&message), Ok(Message::Hello { .. })));
        Some(message)
    };
    // Nobody is there to pass them on to.
    assert!(hello(&mut early, after(0)).is_some());
    assert!(hello(&mut early, after(0)).is_none());
    assert_eq!(early.poll_timeout(), Some(after(1)));
    assert!(hello(&mut early, after(1)).is_some());
    for _ in 0..2 {
        // The second one is the same end that has connected anew.
        let mut late = FarEnd::new(start, true);
        let first = hello(&mut late, after(2)).expect("the first");
        early
            .receive(Channel::Records, &first, after(2))
            .expect("ours");
        let answer = hello(&mut early, after(2)).expect("it is wanted");
        late.receive(Channel::Records, &answer, after(2))
            .expect("ours");
        for end in [&mut early, &mut late] {
            assert!(end.report().is_there);
            assert!(hello(end, after(9)).is_none(), "both know");
        }
    }
}

#[test]
fn who_asks_is_told_by_their_own_clock() {
    let mut ends = Ends::new([true, false]);
    ends.run(Duration::from_secs(2));
    assert!(ends.hosts[1].far.is_requested() && !ends.hosts[0].far.is_requested());
    let (here, there) = (ends.now(0), ends.now(1));
    ends.hosts[1].far.push(&Record::PlayoutCalled(there), there);
    let due = ends.hosts[1].far.poll_timeout().expect("something to tell");
    assert!(due <= there + Duration::from_millis(200));
    ends.run(Duration::from_secs(1));
    let now = ends.now(0);
    assert_eq!(
        ends.hosts[0].far.poll_remote(now),
        None,
        "answers may still come"
    );
    ends.run(Duration::from_secs(4));
    let now = ends.now(0);
    let told = ends.hosts[0].far.poll_remote(now).expect("it has waited");
    let Record::PlayoutCalled(at) = told.record else {
        panic!("{told:?}");
    };
    let off = at.max(here) - at.min(here);
    assert!(
        off <= told.error && told.error < Duration::from_millis(1),
        "{told:?}, {off:?}"
    );
    let report = ends.hosts[0].far.report();
    assert_eq!(
        (report.received, report.unconverted, report.refused),
        (1, 0, 0)
    );
    assert!(report.clock.is_some());
}

#[test]
fn records_without_a_clock_have_no_place() {
    let mut ends = Ends::new([true, true]);
    let now = ends.now(0);
    let mut writer = Writer::new(3, 5);
    writer.push(&called(5)).expect("room");
    let message = writer.finish();
    let far = &mut ends.hosts[0].far;
    far.receive(Channel::Records, &message, now).expect("asked");
    assert_eq!(far.poll_remote(now + Duration::from_secs(9)), None);
    assert_eq!(far.report().unconverted, 0, "the clock may yet be known");
    far.flush();
    assert_eq!(far.poll_remote(now), None);
    let report = far.report();
    assert_eq!(
        (report.received, report.unconverted, report.dropped_there),
        (1, 1, 3)
    );
}

#[test]
fn nonsense_is_counted_and_the_first_is_kept() {
    let mut ends = Ends::new([false, false]);
    let now = ends.now(0);
    let far = &mut ends.hosts[0].far;
    let first = far.receive(Channel::Records, b"hello", now);
    assert!(matches!(
        first,
        Err(Refused::Malformed(Malformed::Version { theirs: b'h' }))
    ));
    assert!(far.receive(Channel::Clock, b"hello", now).is_err());
    let records = far.receive(Channel::Records, &Writer::new(0, 0).finish(), now);
    assert_eq!(records, Err(Refused::Unrequested));
    let report = far.report();
    assert_eq!((report.refused, report.refusal), (3, first.err()));
    let text = report.refusal.expect("kept").to_string();
    assert_eq!(
        text,
        "the other end's records: protocol version 104; this end has version 1"
    );
}

#[test]
fn what_is_told_and_what_waits_is_bounded() {
    let mut ends = Ends::new([true, true]);
    ends.run(Duration::from_millis(10));
    let now = ends.now(0);
    let far = &mut ends.hosts[0].far;
    for _ in 0..QUEUE_MAX + 7 {
        far.push(&Record::CaptureCalled(now), now);
    }
    assert_eq!((far.queue.len(), far.report().dropped_here), (QUEUE_MAX, 7));
    assert_eq!(
        far.poll_records(now + Duration::from_secs(6)),
        None,
        "too old"
    );
    assert_eq!(far.report().dropped_here, QUEUE_MAX as u64 + 7);
    let mut message = vec![1, 2, 0, 0];
    message.extend([4, 2].repeat(1_000));
    for _ in 0..12 {
        far.receive(Channel::Records, &message, now).expect("asked");
    }
    assert_eq!(
        (far.waiting.len(), far.report().unconverted),
        (WAITING_MAX, 4_000)
    );
}

#[test]
fn records_leave_together_after_200_ms_and_are_dropped_after_5_s() {
    let mut ends = Ends::new([true, true]);
    ends.run(Duration::from_millis(10));
    let now = ends.now(0);
    let far = &mut ends.hosts[0].far;
    let after = |ms: u64| now + Duration::from_millis(ms);
    far.push(&Record::CaptureCalled(now), now);
    far.push(&Record::PlayoutCalled(now), after(199));
    assert_eq!(far.poll_records(after(199)), None);
    let message = far.poll_records(after(200)).expect("200 ms have passed");
    let Ok(Message::Records { dropped, records }) = wire::parse(&message) else {
        panic!("{message:?}");
    };
    assert_eq!((dropped, records.len()), (0, 2), "both at once");
    assert_eq!(far.poll_records(after(500)), None, "once");
    // Of exactly 5 s it is told, of more it is not.
    far.push(&Record::CaptureCalled(now), after(1_000));
    assert!(far.poll_records(after(6_000)).is_some());
    far.push(&Record::CaptureCalled(now), after(1_000));
    assert_eq!(far.poll_records(after(6_001)), None);
    assert_eq!(far.report().dropped_here, 1);
    // What no far end would take is dropped as well: 61 s lie between.
    far.push(&Record::CaptureCalled(now), after(7_000));
    let stamps = PlayoutStamps {
        ssrc: Ssrc(1),
        timestamp: 1,
        sequence: None,
        arrived: now,
        opened: now,
        inserted: now,
        pulled: now,
        decode: Duration::from_secs(61),
        mix: Duration::ZERO,
        resample: Duration::ZERO,
        called: now,
        played: now,
        operation: Operation::Normal,
        signal: SignalDelay::default(),
    };
    far.push(&Record::Played(stamps), after(7_000));
    // At the end nothing waits.
    far.flush();
    assert!(far.poll_records(after(7_001)).is_some());
    assert_eq!(far.report().dropped_here, 2);
    assert_eq!(far.poll_records(after(7_002)), None);
}

#[test]
fn an_estimate_of_the_clock_lasts_a_quarter_of_a_second() {
    let mut ends = Ends::new([true, true]);
    ends.run(Duration::from_secs(2));
    let now = ends.now(0);
    let far = &mut ends.hosts[0].far;
    let after = |ms: u64| now + Duration::from_millis(ms);
    assert!(far.estimate(now).is_some());
    let made = |far: &FarEnd| far.estimate.expect("just made").0;
    assert!(far.estimate(after(249)).is_some());
    assert_eq!(made(far), now);
    assert!(far.estimate(after(250)).is_some());
    assert_eq!(made(far), after(250));
    let clock = far.report().clock.expect("reported");
    assert!(clock.skew_ppm.abs() < 1e3 && clock.error > Duration::ZERO);
    far.flush();
    assert!(far.estimate.is_none(), "the last one is the best");
}

#[test]
fn records_wait_4_s_for_the_clock_and_those_before_its_beginning_are_counted() {
    let mut ends = Ends::new([true, true]);
    // The far end's records begin 8 s before ours do.
    let epoch = ends.now(0) - Duration::from_secs(2);
    ends.hosts[0].far = FarEnd::new(epoch, true);
    ends.run(Duration::from_secs(2));
    let (now, there) = (ends.now(0), ends.now(1));
    let other = &ends.hosts[1].far.exchange;
    let mut writer = Writer::new(0, 0);
    writer.push(&called(other.stamp(there))).expect("room");
    let message = writer.finish();
    let mut early = Writer::new(0, 0);
    early.push(&called(0)).expect("room");
    let far = &mut ends.hosts[0].far;
    far.receive(Channel::Records, &message, now).expect("asked");
    let after = |ms: u64| now + Duration::from_millis(ms);
    assert_eq!(far.poll_remote(after(3_999)), None);
    assert!(far.poll_remote(after(4_000)).is_some());
    assert_eq!(far.poll_remote(after(4_000)), None, "once");
    far.receive(Channel::Records, &early.finish(), now)
        .expect("asked");
    assert_eq!(far.poll_remote(after(4_000)), None);
    assert_eq!(far.report().unconverted, 1);
}
