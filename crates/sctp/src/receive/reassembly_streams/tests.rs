use super::*;

/// Half of an interleaved message, the first half or the second one.
fn half(stream: u16, is_second: bool) -> Fragment<'static> {
    Fragment {
        number: u64::from(is_second),
        begins: !is_second,
        ends: is_second,
        info: MessageInfo {
            stream,
            unordered: false,
            number: 0,
            ppid: 53,
        },
        payload: &[7; 10],
    }
}

#[test]
fn a_reset_forgets_what_is_incomplete_of_its_streams_and_of_no_others() {
    for (names, kept) in [(&[1][..], vec![0, 2]), (&[0, 2], vec![1]), (&[], vec![])] {
        let (mut streams, mut ready) = (ReassemblyStreams::default(), VecDeque::new());
        let mut insert = |streams: &mut ReassemblyStreams, fragment| {
            streams.insert_interleaved(&fragment, 100, &mut ready)
        };
        for stream in 0..3 {
            assert_eq!(insert(&mut streams, half(stream, false)), Ok(()));
        }
        assert_eq!(streams.bytes(), 30);
        streams.reset(names);
        assert_eq!(streams.bytes(), 10 * kept.len(), "{names:?}");
        let run = crate::receive::reassembly_queue::RUN_BYTES + 10;
        assert_eq!(streams.held(0), run * kept.len(), "{names:?}");
        for stream in 0..3 {
            assert_eq!(insert(&mut streams, half(stream, true)), Ok(()));
        }
        let came: Vec<_> = ready.iter().map(|it| it.info.stream).collect();
        assert_eq!(came, kept, "{names:?}");
    }
}

fn message(stream: u16, number: u32) -> Fragment<'static> {
    Fragment {
        number: 0,
        begins: true,
        ends: true,
        info: MessageInfo {
            stream,
            unordered: false,
            number,
            ppid: 53,
        },
        payload: b"payload",
    }
}

/// One end names all streams in 245 chunks; that was 6 MB at the other.
#[test]
fn a_forward_tsn_makes_nothing_of_streams_that_nobody_opened() {
    let (mut streams, mut ready) = (ReassemblyStreams::default(), VecDeque::new());
    streams.require_opening();
    streams.open(7);
    streams.skip_data(9, 9, (0..u16::MAX).map(|name| (name, 3)), &mut ready);
    (0..u16::MAX).for_each(|name| streams.skip_interleaved(name, true, 3, &mut ready));
    assert_eq!(streams.states(), 1);
    // What was skipped on the open one counts.
    assert_eq!(
        streams.insert_data(&message(7, 4), 100, 10, &mut ready),
        Ok(())
    );
    assert_eq!(ready.len(), 1);
    assert_eq!(streams.held(0), 0);
}

#[test]
fn a_stream_that_is_not_open_counts_as_memory_as_long_as_it_has_a_state() {
    let (mut streams, mut ready) = (ReassemblyStreams::default(), VecDeque::new());
    streams.require_opening();
    // The message that opens a channel may be overtaken: those behind wait in order.
    for number in [2, 1] {
        assert_eq!(
            streams.insert_data(&message(5, number), 100, 10, &mut ready),
            Ok(())
        );
    }
    assert_eq!(streams.held(100), STREAM_BYTES + 2 * (100 + 7));
    assert_eq!(
        streams.insert_data(&message(5, 0), 100, 10, &mut ready),
        Ok(())
    );
    let numbers: Vec<_> = ready.drain(..).map(|it| it.info.number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    streams.open(5);
    assert_eq!((streams.held(100), streams.states()), (0, 1));
    streams.close(5);
    assert_eq!(
        streams.held(100),
        STREAM_BYTES,
        "the next to open it may have begun"
    );
    streams.open(5);
    streams.reset(&[5]);
    streams.close(5);
    assert_eq!((streams.held(100), streams.states()), (0, 0));
    // One that nobody opens is forgotten with what waits.
    assert_eq!(
        streams.insert_data(&message(9, 1), 100, 10, &mut ready),
        Ok(())
    );
    streams.forget(9);
    assert_eq!(
        (streams.held(100), streams.bytes(), streams.states()),
        (0, 0, 0)
    );
}
