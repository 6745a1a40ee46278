//! Numbers with as many digits as people read, so that most of them are equal a second later.

/// Returns `value` with two significant digits: 1,234 becomes 1,200.
pub(super) fn significant(value: u64) -> u64 {
    let digits = value.checked_ilog10().unwrap_or(0) + 1;
    let unit = 10u64.pow(digits.saturating_sub(2));
    let whole = value / unit * unit;
    match value % unit >= unit.div_ceil(2) && unit > 1 {
        true => whole.saturating_add(unit),
        false => whole,
    }
}

/// Returns `value` with three decimal places.
pub(super) fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Returns `value` with two significant digits, and at most one decimal place.
pub(super) fn milliseconds(value: f64) -> f64 {
    let tenths = match value.abs() {
        ..10.0 => 1.0,
        ..100.0 => 10.0,
        ..1_000.0 => 100.0,
        _ => 1_000.0,
    };
    (value * 10.0 / tenths).round() * tenths / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_left() {
        let rounded = [0, 7, 42, 99, 123, 995, 1_250, 2_449_999].map(significant);
        assert_eq!(rounded, [0, 7, 42, 99, 120, 1_000, 1_300, 2_400_000]);
        assert!(significant(u64::MAX) >= u64::MAX / 10 * 9);
    }

    #[test]
    fn delays_have_a_decimal_place_only_below_ten() {
        let rounded = [0.04, 1.26, 9.94, 42.4, 123.4, 996.0, 4_321.0].map(milliseconds);
        assert_eq!(rounded, [0.0, 1.3, 9.9, 42.0, 120.0, 1_000.0, 4_300.0]);
        assert_eq!(thousandths(0.123_46).to_bits(), 0.123f64.to_bits());
    }
}
