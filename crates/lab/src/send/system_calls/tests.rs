use std::io::Read as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

/// Returns both ends of a connection; the sending one does not wait.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    let far = TcpStream::connect(address).expect("it listens");
    let (near, _) = listener.accept().expect("somebody came");
    near.set_nonblocking(true).expect("a socket");
    near.set_nodelay(true).expect("a socket");
    (near, far)
}

fn read(far: &mut TcpStream, count: usize) -> Vec<u8> {
    let timeout = Some(Duration::from_secs(20));
    far.set_read_timeout(timeout).expect("a socket");
    let mut bytes = vec![0; count];
    far.read_exact(&mut bytes).expect("they were sent");
    bytes
}

fn pattern(count: usize) -> Shared {
    (0..count).map(|index| index as u8).collect()
}

#[test]
fn every_way_brings_the_same_bytes() {
    let (near, mut far) = pair();
    assert_eq!(send_more(&near, b"ab").expect("room"), 2);
    assert_eq!(send(&near, b"cd").expect("room"), 2);
    let parts = [IoSlice::new(b"e"), IoSlice::new(b""), IoSlice::new(b"fgh")];
    assert_eq!(send_parts(&near, &parts).expect("room"), 4);
    cork(&near, true).expect("a TCP socket");
    send(&near, b"i").expect("room");
    send(&near, b"j").expect("room");
    cork(&near, false).expect("a TCP socket");
    let file = MemoryFile::new().expect("memfd");
    file.write(b"..klmnop", 0).expect("memory");
    assert_eq!(file.send(&near, 2, 4).expect("room"), 4);
    let pipe = Pipe::new().expect("a pipe");
    assert_eq!(pipe.fill(&file, 6, 2).expect("room"), 2);
    assert_eq!(pipe.send(&near, 2).expect("room"), 2);
    assert_eq!(read(&mut far, 16), b"abcdefghijklmnop");
}

#[test]
fn zero_copy_holds_its_memory_until_the_kernel_is_done() {
    let (near, mut far) = pair();
    let mut zero_copy = ZeroCopy::enable(&near).expect("Linux 4.14");
    let bytes = pattern(30_000);
    let sent = zero_copy.send(&near, &bytes, 0).expect("room");
    assert_eq!((zero_copy.under_way(), Arc::strong_count(&bytes)), (1, 2));
    assert_eq!(read(&mut far, sent), bytes[..sent]);
    let deadline = Instant::now() + Duration::from_secs(20);
    let reaped = loop {
        if let Some(reaped) = zero_copy.reap(&near).expect("a queue") {
            break reaped;
        }
        assert!(Instant::now() < deadline, "the kernel never said so");
    };
    // Loopback copies, because the receiver is on the same machine.
    assert_eq!((reaped.completed, reaped.copied), (1, 1));
    assert_eq!((zero_copy.under_way(), Arc::strong_count(&bytes)), (0, 1));
    assert_eq!(zero_copy.reap(&near).expect("a queue"), None);
}

#[test]
fn zero_copy_never_frees_memory_that_the_kernel_may_read() {
    let (near, mut far) = pair();
    let mut zero_copy = ZeroCopy::enable(&near).expect("Linux 4.14");
    let bytes = pattern(30_000);
    let sent = zero_copy.send(&near, &bytes, 0).expect("room");
    // The kernel has reported nothing yet.
    drop((zero_copy, near));
    assert_eq!(Arc::strong_count(&bytes), 2);
    assert_eq!(read(&mut far, sent), bytes[..sent]);
}

#[test]
fn a_ring_sends_to_all_with_one_call_or_says_why_not() {
    for zero_copy in [false, true] {
        let (near, mut far): (Vec<_>, Vec<_>) = (0..3).map(|_| pair()).unzip();
        let mut ring = match Ring::new(&near, zero_copy) {
            Ok(ring) => ring,
            // Containers forbid it; then the error must say so.
            Err(error) => {
                assert!(error.to_string().contains("io_uring"), "{error}");
                continue;
            }
        };
        let bytes = pattern(5000);
        let mut taken = [0; 3];
        ring.send([2, 0], &bytes, |done| {
            taken[done.socket] += done.result.expect("room");
        })
        .expect("a ring");
        assert_eq!(taken, [5000, 0, 5000]);
        assert_eq!(read(&mut far[0], 5000), bytes[..]);
        assert_eq!(read(&mut far[2], 5000), bytes[..]);
        assert!(
            (1..=3).contains(&ring.system_calls),
            "{}",
            ring.system_calls
        );
        // Memory is released by later calls, at the latest.
        let deadline = Instant::now() + Duration::from_secs(20);
        while Arc::strong_count(&bytes) > 1 {
            assert!(Instant::now() < deadline, "never given back");
            ring.send([1], &pattern(1), |_| {}).expect("a ring");
        }
    }
}
