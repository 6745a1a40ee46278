//! Display of a call: one line with levels and delays, which is redrawn on a terminal, and two
//! keys.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use console::{Key as Pressed, Term};
use glassline_client::call::Figures;
use indicatif::{ProgressBar, ProgressStyle};

use crate::logging;

/// A key that the user may press during a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// `m`: mute or unmute.
    Mute,
    /// `q`: end the call.
    HangUp,
}

pub(super) struct Terminal {
    quiet: bool,
    line: Option<ProgressBar>,
    keys: Option<Receiver<Key>>,
}

impl Terminal {
    pub(super) fn new(quiet: bool) -> Self {
        let is_watched = std::io::stderr().is_terminal() && !quiet;
        let is_typed = is_watched && std::io::stdin().is_terminal();
        Self {
            quiet,
            line: is_watched.then(|| {
                let style = ProgressStyle::with_template("{wide_msg}").expect("a template of ours");
                ProgressBar::new_spinner().with_style(style)
            }),
            keys: is_typed.then(listen).flatten(),
        }
    }

    /// Prints a line that stays.
    pub(super) fn say(&self, text: &str) {
        if self.quiet {
            return;
        }
        let text = logging::escaped_lines(text);
        match &self.line {
            Some(line) => line.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    pub(super) fn connected(&self, figures: &Figures) {
        let peer = figures.peer.map(|it| it.to_string()).unwrap_or_default();
        let protection = figures.protection.unwrap_or("nothing");
        let keys = match self.keys {
            Some(_) => "; m mutes, q hangs up",
            None => "",
        };
        self.say(&format!("connected to {peer}, {protection}{keys}"));
    }

    /// The next key that was pressed and not yet returned.
    pub(super) fn key(&self) -> Option<Key> {
        self.keys.as_ref()?.try_recv().ok()
    }

    /// Redraws the line. `others`: number of other participants in a room. `whole_ms`:
    /// mouth-to-ear delay, p50 and p99, where it is known.
    pub(super) fn show(
        &self,
        figures: &Figures,
        since: Option<Duration>,
        muted: bool,
        others: Option<usize>,
        whole_ms: [Option<f64>; 2],
    ) {
        let Some(line) = &self.line else { return };
        let mut text = describe(figures, since, muted);
        match others {
            Some(0) => text += "  nobody else is here",
            Some(1) => text += "  with 1 other",
            Some(count) => text += &format!("  with {count} others"),
            None => {}
        }
        let kept = figures.listening.as_ref().filter(|it| it.refused > 0);
        let kept = kept.map(|it| it.streams.len());
        if let Some(kept) = kept.filter(|kept| others.is_some_and(|it| it > *kept)) {
            write!(text, ", {kept} of them audible").expect("a string takes everything");
        }
        if let [Some(p50), Some(p99)] = whole_ms {
            write!(text, "  mouth to ear {p50:.1} ms, p99 {p99:.1}")
                .expect("a string takes everything");
        }
        line.set_message(text);
    }

    /// Clears the redrawn line, and prints a summary of the call.
    pub(super) fn end(&self, figures: &Figures, since: Option<Duration>) {
        if let Some(line) = &self.line {
            line.set_message("");
        }
        if let Some(since) = since {
            self.say(&summary(figures, since));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            line.finish_and_clear();
        }
    }
}

/// Starts a thread that reads keys as long as the program runs.
fn listen() -> Option<Receiver<Key>> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("keys".to_owned());
    let thread = thread.spawn(move || {
        let terminal = Term::stderr();
        while let Ok(pressed) = terminal.read_key() {
            let key = match pressed {
                Pressed::Char('m' | 'M') => Key::Mute,
                Pressed::Char('q' | 'Q') => Key::HangUp,
                _ => continue,
            };
            if sender.send(key).is_err() {
                return;
            }
        }
    });
    thread.ok().map(|_| receiver)
}

/// The line, as `0:42  you ▆ -23 dB  they ▃ -41 dB  round trip 23.4 ms  buffer 18 of 22 ms  they
/// miss 0.4 %`.
fn describe(figures: &Figures, since: Option<Duration>, muted: bool) -> String {
    let Some(since) = since else {
        return "connecting".to_owned();
    };
    let seconds = since.as_secs();
    let mut out = format!("{}:{:02}", seconds / 60, seconds % 60);
    let mut add = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a string takes everything");
    };
    match &figures.speaking {
        _ if muted => add(format_args!("  you are muted")),
        Some(it) => add(format_args!("  you {}", level(it.level_dbov))),
        None => {}
    }
    if let Some(it) = &figures.listening {
        add(format_args!("  they {}", level(it.level_dbov)));
    }
    if let Some(rtt) = figures.rtt {
        add(format_args!("  round trip {:.1} ms", ms(rtt)));
    }
    // Of several streams, the loudest.
    let streams = figures.listening.iter().flat_map(|it| &it.streams);
    let stream = streams.min_by_key(|it| it.level_dbov);
    if let Some(stream) = stream {
        let (delay, target) = (ms(stream.jitter.delay), ms(stream.jitter.target));
        add(format_args!("  buffer {delay:.0} of {target:.0} ms"));
        let concealed = stream.jitter.concealed_ratio() * 100.0;
        if concealed >= 0.01 {
            add(format_args!("  concealed {concealed:.2} %"));
        }
    }
    if let Some(lost) = figures.lost_ratio.filter(|it| *it > 0.0) {
        add(format_args!("  they miss {:.1} %", lost * 100.0));
    }
    out
}

/// Summary of a call that is over: duration, packets sent and received, losses, concealment.
fn summary(figures: &Figures, since: Duration) -> String {
    let mut out = format!("{:.1} s", since.as_secs_f64());
    let mut add = |text: std::fmt::Arguments<'_>| {
        out.write_fmt(text).expect("a string takes everything");
    };
    if let Some(it) = &figures.speaking {
        let rate = it.bytes as f64 * 8e-3 / since.as_secs_f64().max(0.001);
        add(format_args!(
            "; sent {} packets, {rate:.0} kbit/s",
            it.packets
        ));
    }
    let streams = figures.listening.iter().flat_map(|it| &it.streams);
    for stream in streams {
        let counts = stream.jitter.counts;
        let concealed = stream.jitter.concealed_ratio() * 100.0;
        add(format_args!(
            "; heard {} packets, {} lost",
            counts.packets, counts.lost
        ));
        if counts.repeated > 0 {
            add(format_args!(", {} played from copies", counts.repeated));
        }
        add(format_args!(
            ", {} late, {concealed:.2} % concealed",
            counts.late
        ));
    }
    let unheard = figures.listening.as_ref().map_or(0, |it| it.refused);
    if unheard > 0 {
        add(format_args!(
            "; {unheard} packets were not played, since more people spoke than are mixed at once"
        ));
    }
    if figures.overflowed > 0 {
        add(format_args!(
            "; {} packets, periods of audio or records dropped, since this machine was too \
             busy (most of a call's work is saved by --no-aec, --no-ns, --no-agc)",
            figures.overflowed
        ));
    }
    out
}

/// A level in −dBov as a bar and a number.
fn level(dbov: u8) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let step = usize::from(63u8.saturating_sub(dbov)) / 8;
    match dbov {
        127 => "▁ silent".to_owned(),
        _ => format!("{} -{dbov} dB", BARS[step.min(7)]),
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_known_and_nothing_else() {
        let mut figures = Figures::default();
        assert_eq!(describe(&figures, None, false), "connecting");
        let since = Some(Duration::from_secs(62));
        assert_eq!(describe(&figures, since, true), "1:02  you are muted");
        figures.rtt = Some(Duration::from_micros(23_400));
        figures.lost_ratio = Some(0.004);
        assert_eq!(
            describe(&figures, since, false),
            "1:02  round trip 23.4 ms  they miss 0.4 %"
        );
        figures.lost_ratio = Some(0.0);
        figures.speaking = Some(glassline_client::call::speaker::Report {
            level_dbov: 23,
            packets: 6_200,
            bytes: 248_000,
            ..Default::default()
        });
        let text = describe(&figures, since, false);
        assert_eq!(text, "1:02  you ▆ -23 dB  round trip 23.4 ms");
        assert_eq!(
            summary(&figures, Duration::from_secs(62)),
            "62.0 s; sent 6200 packets, 32 kbit/s"
        );
    }

    #[test]
    fn levels_have_a_bar_each() {
        for (dbov, wanted) in [(0, "█ -0 dB"), (60, "▁ -60 dB"), (127, "▁ silent")] {
            assert_eq!(level(dbov), wanted);
        }
    }
}
