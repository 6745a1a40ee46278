//! The calendar clock: of this machine, and of a server by the Date of its answers and by its sender
//! reports.

use std::time::{Duration, SystemTime};

use glassline_client::probe::http::Exchange;
use glassline_client::probe::ntp;
use glassline_client::probe::rtsp::SenderClock;
use glassline_net::ClockDiscipline;

use super::finding::{Finding, Severity};

const CHECK: &str = "clock";

/// Difference between two clocks that is a fault, in seconds.
const DIFFERENCE_S_MAX: f64 = 1.0;

/// Difference from which on a sender report counts from another time than 1900, in seconds.
const CALENDAR_S_MAX: f64 = 86_400.0;

const WHY: &str = "certificates, tokens with an end and TURN credentials are judged by the clock, and \
                   delays between machines are computed from it";

const CHANGE: &str = "`timedatectl set-ntp true`, or start chrony, on the machine that is wrong";

/// Time that an NTP server has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Checks the clock of this machine: whether a time service keeps it, and, if `ntp` names a server,
/// how far it is off.
pub(super) fn check(ntp: Option<&str>) -> Vec<Finding> {
    let kept = glassline_net::clock_discipline().ok().map(discipline);
    let measured = ntp.map(|server| match ask(server) {
        Ok(offset) => compared(
            CHECK,
            format!("{server} by NTP"),
            offset.ahead_s,
            offset.ahead_s,
        ),
        Err(error) => Finding::warning(CHECK, server, format!("no time by NTP: {error}"))
            .why("the clock could not be compared")
            .change("name a server that answers: `--ntp pool.ntp.org`"),
    });
    kept.into_iter().chain(measured).collect()
}

fn ask(server: &str) -> std::io::Result<ntp::Offset> {
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, port.parse().unwrap_or(123)),
        _ => (server, 123),
    };
    let address = glassline_client::probe::resolve(host, port)?[0];
    ntp::offset(address, PATIENCE)
}

fn discipline(clock: ClockDiscipline) -> Finding {
    let subject = "this machine";
    if clock.is_synchronized {
        let error = clock.error_max.as_millis();
        return Finding::ok(
            CHECK,
            subject,
            format!("a time service keeps the clock within {error} ms"),
        );
    }
    Finding::notice(
        CHECK,
        subject,
        "the kernel knows of no time service that keeps the clock",
    )
    .why("a clock that nobody keeps drifts by seconds in a week")
    .change("`timedatectl set-ntp true`, or start chrony (a virtual machine's host may do that)")
}

/// Compares the Date of an answer with this machine's clock; `None` if there is no Date.
pub(super) fn of_exchange(subject: impl Into<String>, exchange: &Exchange) -> Option<Finding> {
    let date = http_date(exchange.header("date")?)?;
    let (least, most) = ahead(date, exchange.asked, exchange.answered);
    Some(compared(CHECK, subject.into(), least, most))
}

/// Least and most seconds that a server's clock is ahead, if it wrote `date`, in whole seconds, between
/// our times `asked` and `answered`.
fn ahead(date: SystemTime, asked: SystemTime, answered: SystemTime) -> (f64, f64) {
    let seconds = |later: SystemTime, earlier: SystemTime| match later.duration_since(earlier) {
        Ok(span) => span.as_secs_f64(),
        Err(error) => -error.duration().as_secs_f64(),
    };
    (seconds(date, answered), seconds(date, asked) + 1.0)
}

/// Compares the time of an RTCP sender report with this machine's clock. Its way takes at most a round
/// trip, which is the error of the comparison.
pub(super) fn of_sender_report(subject: &str, seen: &SenderClock) -> Finding {
    let round_trip = seen.round_trip.as_secs_f64();
    let subject = format!("{subject} by RTCP");
    if seen.ahead_s.abs() > CALENDAR_S_MAX {
        let what = "its sender reports have no calendar time";
        return Finding::notice(CHECK, subject, what)
            .why("delays cannot be measured, and recordings of several cameras not be aligned")
            .change("let the camera set its clock by NTP");
    }
    let finding = compared(CHECK, subject, seen.ahead_s, seen.ahead_s + round_trip);
    if finding.severity != Severity::Ok {
        return finding;
    }
    let (ahead, error) = (seen.ahead_s + round_trip / 2.0, round_trip / 2.0);
    let direction = if ahead > 0.0 { "ahead of" } else { "behind" };
    let ms = ahead.abs() * 1e3;
    Finding {
        what: format!(
            "{ms:.0} ms {direction} this machine's clock, ± {:.1} ms",
            error * 1e3
        ),
        ..finding
    }
}

/// Judges a clock that is `least` to `most` seconds ahead.
fn compared(check: &'static str, subject: String, least: f64, most: f64) -> Finding {
    let is_right = least <= DIFFERENCE_S_MAX && most >= -DIFFERENCE_S_MAX;
    if is_right {
        return Finding::ok(check, subject, "the clocks agree within a second");
    }
    let middle = f64::midpoint(least, most);
    let direction = if middle > 0.0 { "ahead of" } else { "behind" };
    Finding::failure(
        check,
        subject,
        format!("{:.0} s {direction} this machine's clock", middle.abs()),
    )
    .why(WHY)
    .change(CHANGE)
}

/// Reads a date of HTTP, like `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
fn http_date(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok()?;
    let mut time = words.next()?.split(':').map(str::parse::<u64>);
    let mut part = || time.next()?.ok();
    let seconds = part()? * 3600 + part()? * 60 + part()?;
    // Days of the Gregorian calendar, whose year is taken to begin in March.
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month + 9),
        _ => (year, month - 3),
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day;
    let since = days.checked_sub(719_469)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(since * 86_400 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn dates_of_http_are_read() {
        let read = |text| {
            let time = http_date(text)?.duration_since(SystemTime::UNIX_EPOCH);
            Some(time.expect("after 1970").as_secs())
        };
        assert_eq!(read("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(read("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(read("Thu, 29 Feb 2024 12:00:01 GMT"), Some(1_709_208_001));
        assert_eq!(read("yesterday"), None);
        assert_eq!(read("Thu, 29 Fob 2024 12:00:01 GMT"), None);
    }

    #[test]
    fn a_clock_five_seconds_off_is_a_failure_and_the_grain_of_a_date_is_none() {
        let judge = |date: f64, asked: f64, answered: f64| {
            let (least, most) = ahead(at(date), at(asked), at(answered));
            compared(CHECK, String::new(), least, most)
        };
        // The server's clock is right; its date lacks the fraction, and the answer took a second.
        assert_eq!(judge(1000.0, 1000.9, 1001.9).severity, Severity::Ok);
        assert_eq!(judge(1000.0, 999.1, 999.2).severity, Severity::Ok);
        let ahead = judge(1005.0, 1000.2, 1000.3);
        assert_eq!(ahead.severity, Severity::Failure);
        assert_eq!(ahead.what, "5 s ahead of this machine's clock");
        let behind = judge(995.0, 1000.4, 1000.5);
        assert_eq!(behind.what, "5 s behind this machine's clock");
        assert!(behind.change.contains("timedatectl"));
    }

    #[test]
    fn a_sender_report_tells_the_clock_within_a_round_trip() {
        let judge = |ahead_s: f64, round_trip_ms: u64| {
            let round_trip = Duration::from_millis(round_trip_ms);
            of_sender_report(
                "camera",
                &SenderClock {
                    ahead_s,
                    round_trip,
                },
            )
        };
        let right = judge(-0.010, 30);
        assert_eq!(right.severity, Severity::Ok);
        assert_eq!(right.what, "5 ms ahead of this machine's clock, ± 15.0 ms");
        // A slow way is no wrong clock.
        assert_eq!(judge(-1.5, 600).severity, Severity::Ok);
        assert_eq!(judge(-5.0, 600).severity, Severity::Failure);
        assert_eq!(judge(5.0, 1).what, "5 s ahead of this machine's clock");
        let booted = judge(-3_900_000_000.0, 1);
        assert_eq!(booted.severity, Severity::Notice);
        assert!(booted.what.contains("no calendar time"), "{booted:?}");
    }

    #[test]
    fn a_clock_that_nobody_keeps_is_worth_a_notice() {
        let finding = discipline(ClockDiscipline {
            is_synchronized: false,
            error_max: Duration::from_secs(16),
        });
        assert_eq!(finding.severity, Severity::Notice);
        assert!(finding.change.contains("chrony"));
    }
}
