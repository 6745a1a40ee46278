//! Time stamps of MPEG systems (ISO/IEC 13818-1 §2.4.3.7): 33 bits at 90 kHz, and clock
//! references at 27 MHz.

/// Ticks per second of a system clock reference.
pub(crate) const CLOCK_RATE: i64 = 27_000_000;

/// Ticks of the system clock in one tick of a presentation or decoding time stamp.
pub(crate) const CLOCK_PER_STAMP: i64 = 300;

/// Modulus of time stamps, which wrap after 26.5 hours.
pub(crate) const STAMP_MODULUS: i64 = 1 << 33;

/// Modulus of clock references.
pub(crate) const CLOCK_MODULUS: i64 = STAMP_MODULUS * CLOCK_PER_STAMP;

/// Length of a time stamp in bytes.
pub(crate) const STAMP_BYTES: usize = 5;

/// Reads a time stamp of a PES header of both syntaxes, or of an MPEG-1 pack header: 3, 15 and
/// 15 bits with a marker bit behind each, which is not checked.
pub(crate) fn read(bytes: [u8; STAMP_BYTES]) -> i64 {
    let [a, b, c, d, e] = bytes.map(i64::from);
    (a >> 1 & 7) << 30 | b << 22 | c >> 1 << 15 | d << 7 | e >> 1
}

/// Overwrites a time stamp; the bits around it stay. The stamp wraps.
pub(crate) fn write(bytes: &mut [u8; STAMP_BYTES], stamp: i64) {
    let stamp = stamp.rem_euclid(STAMP_MODULUS);
    let low = |bits: i64| (bits & 0xff) as u8;
    bytes[0] = bytes[0] & 0xf1 | low(stamp >> 30 << 1);
    bytes[1] = low(stamp >> 22);
    bytes[2] = bytes[2] & 1 | low(stamp >> 15 << 1);
    bytes[3] = low(stamp >> 7);
    bytes[4] = bytes[4] & 1 | low(stamp << 1);
}

/// Returns how far `to` is ahead of `from` on a scale that wraps at `modulus`; negative if it
/// is behind.
pub(crate) fn ahead(from: i64, to: i64, modulus: i64) -> i64 {
    let forward = to.wrapping_sub(from).rem_euclid(modulus);
    if forward >= modulus / 2 {
        forward - modulus
    } else {
        forward
    }
}

/// Converts ticks of the system clock to ns, rounded.
pub(crate) fn clock_ns(ticks: i64) -> i64 {
    let nanos = (i128::from(ticks) * 1000 + 13).div_euclid(27);
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stamps_wrap_both_ways() {
        assert_eq!(ahead(STAMP_MODULUS - 10, 20, STAMP_MODULUS), 30);
        assert_eq!(ahead(20, STAMP_MODULUS - 10, STAMP_MODULUS), -30);
        assert_eq!(clock_ns(CLOCK_RATE), 1_000_000_000);
        assert_eq!(clock_ns(1), 37);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(stamp in 0..STAMP_MODULUS, around in any::<[u8; 5]>()) {
            let mut bytes = around;
            write(&mut bytes, stamp);
            prop_assert_eq!(read(bytes), stamp);
            let kept = [0xf1, 0, 1, 0, 1];
            for place in 0..5 {
                prop_assert_eq!(bytes[place] & kept[place], around[place] & kept[place]);
            }
            write(&mut bytes, stamp + STAMP_MODULUS);
            prop_assert_eq!(read(bytes), stamp);
        }
    }
}
