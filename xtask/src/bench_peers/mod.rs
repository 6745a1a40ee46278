//! `cargo xtask bench-peers`: the same load on Glassline and on other servers.
//!
//! ```text
//! prepare ─► for each layout ─► for each server: start ─ ramp ─ stop ─► table
//!  apt, go     pinned, shared     target/bench/peers/*.json, *.csv      docs/benchmarks/other-servers.md
//!  release build                                                        docs/benchmarks/fan-out*.svg
//! ```
//!
//! All servers have the same generator, `glassline bench viewers`, and the same files, and run
//! one at a time. Ours is measured last, with this machine's floor, and its chart shows all
//! servers. A server that collapses or is not available has a row that says so.

mod data;
mod document;
pub(crate) mod hls;
mod media;
mod moq;
mod place;
mod processor;
mod record;
mod results;
mod running;
mod server;
mod whip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use document::{Comparison, Entry};
use media::Media;
use place::{Layout, Placement};
use results::Run;
use server::{Lab, Server};

use crate::{Failure, install, process};

/// Number of viewers at which costs are compared, if the ramp has such a step.
const VIEWERS_COMPARED: u64 = 100;

/// Time in addition to the ramp: starting and stopping a server, and the floor.
const MARGIN: Duration = Duration::from_secs(120);

struct Options {
    servers: Vec<Server>,
    layouts: Vec<Layout>,
    ramp: Ramp,
    every: u64,
    hold: u64,
    /// Whether results are written into documents; a quick run is only printed.
    writes: bool,
    subject: Subject,
    /// Binary of ours to measure; built from the checkout if absent.
    binary: Option<PathBuf>,
}

/// The load that servers are compared under.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    /// Viewers by WebRTC and RTSP.
    Viewers,
    /// Viewers that load playlists and parts by HLS.
    Hls,
    /// One upload and its readers by MoQ.
    Moq(moq::Load),
    /// Messages over data channels.
    Data,
    /// Publishers that send one stream each by WHIP.
    Whip,
    /// Recordings of many cameras.
    Record,
}

/// Numbers of viewers to measure, as `START:END:STEP` on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ramp {
    start: u64,
    end: u64,
    step: u64,
}

/// Compares; `arguments` as in the usage text.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let options = Options::parse(arguments).map_err(Failure::usage)?;
    // Read before our own charts change the checkout.
    let circumstances = circumstances(arguments);
    let hold = Duration::from_secs(options.hold);
    if options.subject == Subject::Data {
        let binary = options.binary.as_deref();
        return Ok(data::run(hold, options.writes, binary, &circumstances)?);
    }
    let lab = prepare(&options)?;
    let layout = options.layouts.first().copied().unwrap_or(Layout::Shared);
    match options.subject {
        Subject::Viewers | Subject::Data => compare_viewers(&options, &lab, &circumstances)?,
        Subject::Hls => hls::run(&lab, layout, hold, options.writes)?,
        Subject::Moq(load) => moq::run(&lab, layout, load)?,
        Subject::Whip => whip::run(&lab, layout, hold)?,
        Subject::Record => record::run(&lab, layout, hold)?,
    }
    Ok(())
}

/// Compares the servers under viewers by WebRTC and RTSP, in each layout.
fn compare_viewers(options: &Options, lab: &Lab, circumstances: &str) -> Result<(), String> {
    let servers = available(&options.servers);
    let mut section = String::new();
    let mut measured = Vec::new();
    for layout in &options.layouts {
        let Some(placement) = Placement::on_this_machine(*layout) else {
            println!("\nskipped the layout `{}`: one core", layout.name());
            continue;
        };
        println!("\n== {}: {}", layout.name(), placement.words());
        let comparison = compare(options, &servers, lab, &placement);
        let rows = comparison.rows();
        println!("\n{} viewers:", comparison.at);
        println!("{}", document::aligned(&rows));
        let rows = match section.is_empty() {
            true => rows,
            false => document::brief(&rows),
        };
        section += &layout_section(&comparison, &placement, &rows);
        measured.extend(comparison.measured().map(str::to_owned));
        if options.writes {
            publish_chart(lab, *layout)?;
        }
    }
    let section = format!("{}{section}", head(options, lab, circumstances, &measured));
    let path = lab.folder.join("section.md");
    write(&path, &section)?;
    println!("reports: {}", lab.folder.display());
    if options.writes {
        let path = process::root().join("docs/benchmarks/other-servers.md");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let text = document::replaced(&text, &section)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        write(&path, &text)?;
        println!("written: {}", path.display());
    }
    Ok(())
}

/// Video and audio of the comparisons, which are made if they do not exist yet.
pub(crate) fn reference() -> Result<(PathBuf, PathBuf), String> {
    let folder = process::target_directory().join("bench");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let media = Media::in_folder(&folder)?;
    Ok((media.video, media.audio))
}

/// Makes the media, our binary, and the folder of the comparison.
fn prepare(options: &Options) -> Result<Lab, Failure> {
    install::build_tools()?;
    install::peer("FFmpeg")?;
    let glassline = match &options.binary {
        Some(binary) => binary.clone(),
        None => {
            let build = ["build", "--release", "--package", "glassline"];
            process::run(&mut process::cargo(&build))?;
            process::target_directory().join("release/glassline")
        }
    };
    let bench = process::target_directory().join("bench");
    let folder = bench.join("peers");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(Lab {
        folder,
        media: Media::in_folder(&bench)?,
        glassline,
        duration: options.patience(),
    })
}

/// Installs and builds all servers before the first measurement; for those that are not
/// available, returns the reason.
fn available(servers: &[Server]) -> Vec<(Server, Result<(), String>)> {
    let prepared = servers.iter().map(|server| (*server, server.prepare()));
    prepared.collect()
}

/// Measures every server in turn.
fn compare(
    options: &Options,
    servers: &[(Server, Result<(), String>)],
    lab: &Lab,
    place: &Placement,
) -> Comparison {
    let mut runs = Vec::new();
    let mut drawn = Vec::new();
    for (server, available) in servers {
        println!("\n-- {}: {}", server.name(), server.about());
        let run = available
            .clone()
            .and_then(|()| measure(*server, options, lab, place, &drawn));
        match &run {
            Ok(_) if server.is_drawn() => drawn.push(lab.report(*server, place.layout, "json")),
            Ok(_) => {}
            Err(reason) => println!("skipped {}: {reason}", server.name()),
        }
        runs.push(Entry {
            name: server.name().to_owned(),
            ours: server.ours().name(),
            has_whole_load: server.has_whole_load(),
            run,
        });
    }
    let at = options.ramp.nearest(VIEWERS_COMPARED);
    Comparison { runs, at }
}

/// Starts, loads and stops one server. A generator that fails after it has written its report has
/// still measured.
fn measure(
    server: Server,
    options: &Options,
    lab: &Lab,
    place: &Placement,
    earlier: &[PathBuf],
) -> Result<Run, String> {
    let report = lab.report(server, place.layout, "json");
    // A report of an earlier run must not be read as this run's.
    let _ = fs::remove_file(&report);
    let mut serving = server.start(lab, place)?;
    let mut generator = Command::new(&lab.glassline);
    generator.args(["bench", "viewers", &serving.url]);
    if let Some(transport) = serving.transport {
        generator.args(["--transport", transport, "--describe-probe"]);
    }
    let Ramp { start, end, step } = options.ramp;
    generator.args(["--ramp", &format!("{start}:{end}:{step}")]);
    generator.args(["--every", &format!("{}s", options.every)]);
    generator.args(["--hold", &format!("{}s", options.hold)]);
    // The ramp does not stop at a limit: how a server fails is part of the result.
    generator.args(["--max-cpu", "100"]);
    generator.args(["--server-pid", &serving.process.to_string()]);
    generator.args(["--label", server.name()]);
    generator.arg("--json").arg(&report);
    let files = ["csv", "svg"].map(|kind| (kind, lab.report(server, place.layout, kind)));
    for (kind, path) in &files {
        generator.arg(format!("--{kind}")).arg(path);
    }
    if server == Server::Glassline {
        let files = (lab.media.video.display(), lab.media.audio.display());
        generator.arg(format!("--floor={},{}", files.0, files.1));
        for other in earlier {
            generator.arg("--overlay").arg(other);
        }
    }
    let ended = running::run_in_view(&generator, &place.generator, options.patience());
    let has_crashed = serving.has_crashed();
    drop(serving);
    match (Run::read(&report), ended) {
        (Ok(run), ended) => {
            if let Err(reason) = ended {
                println!("{}: {reason}; its report is used", server.name());
            }
            Ok(Run { has_crashed, ..run })
        }
        (Err(_), Err(reason)) | (Err(reason), Ok(())) => Err(reason),
    }
}

impl Lab {
    fn report(&self, server: Server, layout: Layout, kind: &str) -> PathBuf {
        let name = match layout {
            Layout::Pinned => format!("{}.{kind}", server.name()),
            Layout::Shared => format!("{}-shared.{kind}", server.name()),
        };
        self.folder.join(name)
    }
}

/// Copies Glassline's chart, which shows all servers, into the docs.
fn publish_chart(lab: &Lab, layout: Layout) -> Result<(), String> {
    let drawn = lab.report(Server::Glassline, layout, "svg");
    if !drawn.is_file() {
        return Ok(());
    }
    let path = process::root().join("docs/benchmarks").join(chart(layout));
    fs::copy(&drawn, &path)
        .map(drop)
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn chart(layout: Layout) -> &'static str {
    match layout {
        Layout::Pinned => "fan-out.svg",
        Layout::Shared => "fan-out-shared.svg",
    }
}

/// Command line, time and machine of the comparison.
fn circumstances(arguments: &[String]) -> String {
    let said = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let output = process::output_of(command.current_dir(process::root()).args(words));
        output.map_or_else(String::new, |text| text.trim().to_owned())
    };
    format!(
        "`{}`, {}, commit {}. Machine: {}.\n\n",
        [&["cargo xtask bench-peers".to_owned()], arguments]
            .concat()
            .join(" "),
        said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        said("git", &["describe", "--always", "--dirty"]),
        machine(&said("uname", &["-sr"])),
    )
}

/// Head of the section: servers, versions and media.
fn head(options: &Options, lab: &Lab, circumstances: &str, measured: &[String]) -> String {
    let mut text = format!("## Other servers (`bench-peers`)\n\n{circumstances}");
    text += &format!(
        "Every server plays the same files: 1080p30 H.264 at 3 Mbit/s, and Opus at 64 kbit/s, \
         411 packets/s. One generator loads them one after another, {} s a step. CPU includes \
         kernel time; [what is delivered](load-testing.md#what-the-figures-mean). Costs are \
         compared only where both sides delivered at least 0.99.\n\n",
        options.every,
    );
    let was_measured = |server: &&Server| measured.iter().any(|name| name == server.name());
    for server in options.servers.iter().filter(was_measured) {
        let version = server.version(lab);
        text += &format!("- `{}` {version}: {}\n", server.name(), server.about());
    }
    text
}

fn machine(kernel: &str) -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown processor", |(_, model)| model.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {model}, {kernel}")
}

fn layout_section(comparison: &Comparison, place: &Placement, rows: &[Vec<String>]) -> String {
    let (name, words) = (place.layout.name(), place.words());
    let mut text = format!("\n### Layout `{name}`: {words}\n\n");
    text += &format!("With {} viewers:\n\n", comparison.at);
    text += &document::markdown(rows);
    let ours = Server::Glassline.name();
    if comparison.measured().any(|name| name == ours) {
        text += &format!("\n![{words}]({})\n", chart(place.layout));
    }
    text
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options, String> {
        let is_quick = arguments.iter().any(|argument| argument == "--quick");
        let (end, seconds) = if is_quick { (50, 3) } else { (300, 5) };
        let mut options = Options {
            servers: Server::ALL.to_vec(),
            layouts: Layout::ALL.to_vec(),
            ramp: Ramp {
                start: 0,
                end,
                step: 25,
            },
            every: seconds,
            hold: seconds * 2,
            writes: !is_quick,
            subject: Subject::Viewers,
            binary: None,
        };
        let mut asked_readers = None;
        let mut words = arguments.iter();
        while let Some(flag) = words.next() {
            if flag == "--quick" {
                continue;
            }
            if let Some(subject) = Subject::of_flag(flag) {
                options.subject = subject;
                continue;
            }
            let mut value = || {
                let value = words.next();
                value.ok_or_else(|| format!("{flag} needs a value"))
            };
            match flag.as_str() {
                "--servers" => options.servers = servers(value()?)?,
                "--layouts" => options.layouts = layouts(value()?)?,
                "--ramp" => options.ramp = Ramp::parse(value()?)?,
                "--readers" => asked_readers = Some(readers(value()?)?),
                "--every" => options.every = seconds_of(value()?)?,
                "--binary" => options.binary = Some(PathBuf::from(value()?)),
                "--hold" => options.hold = seconds_of(value()?)?,
                other => return Err(format!("bench-peers takes no `{other}`")),
            }
        }
        if asked_readers.is_some() {
            options.subject = Subject::Moq(moq::Load::default());
        }
        if let Subject::Moq(load) = &mut options.subject {
            if arguments.iter().any(|argument| argument == "--hold") {
                load.hold = Duration::from_secs(options.hold);
            }
            load.readers = asked_readers.unwrap_or(load.readers);
        }
        Ok(options)
    }

    /// Longest time of one server's ramp: joins of a server that collapses wait for their
    /// timeouts.
    fn patience(&self) -> Duration {
        let steps = (self.ramp.end - self.ramp.start).div_ceil(self.ramp.step) + 1;
        Duration::from_secs(3 * (steps * self.every + self.hold)) + MARGIN
    }
}

impl Subject {
    fn of_flag(flag: &str) -> Option<Self> {
        Some(match flag {
            "--data" => Self::Data,
            "--whip" => Self::Whip,
            "--hls" => Self::Hls,
            "--record" => Self::Record,
            "--moq" => Self::Moq(moq::Load::default()),
            _ => return None,
        })
    }
}

impl Ramp {
    fn parse(text: &str) -> Result<Ramp, String> {
        let numbers: Vec<u64> = text
            .split(':')
            .map_while(|word| word.parse().ok())
            .collect();
        match numbers[..] {
            [start, end, step] if step > 0 && start <= end && text.matches(':').count() == 2 => {
                Ok(Ramp { start, end, step })
            }
            _ => Err(format!("--ramp {text}: START:END:STEP, as in 0:300:25")),
        }
    }

    /// The step of the ramp that is nearest to `viewers`, the larger of two.
    fn nearest(self, viewers: u64) -> u64 {
        let steps = (self.start..self.end)
            .step_by(usize::try_from(self.step).unwrap_or(usize::MAX))
            .chain([self.end]);
        let nearest = steps.min_by_key(|step| (step.abs_diff(viewers), u64::MAX - step));
        nearest.unwrap_or(self.end)
    }
}

fn servers(names: &str) -> Result<Vec<Server>, String> {
    let mut asked = Vec::new();
    for name in names.split(',') {
        let found = Server::ALL.iter().find(|server| server.name() == name);
        let all = Server::ALL.map(Server::name).join(", ");
        asked.push(*found.ok_or_else(|| format!("no server `{name}`; there are {all}"))?);
    }
    // In our own order, because the chart of the last one shows all.
    Ok(Server::ALL
        .into_iter()
        .filter(|server| asked.contains(server))
        .collect())
}

fn layouts(names: &str) -> Result<Vec<Layout>, String> {
    let find = |name: &str| Layout::ALL.into_iter().find(|layout| layout.name() == name);
    let all = names.split(',').map(|name| {
        find(name).ok_or_else(|| format!("no layout `{name}`; there are pinned and shared"))
    });
    all.collect()
}

fn readers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(readers) if (1..=1_000).contains(&readers) => Ok(readers),
        _ => Err(format!("`{text}` is no number of readers from 1 to 1000")),
    }
}

/// Parses a time such as `5s` or `5`, in whole seconds.
fn seconds_of(text: &str) -> Result<u64, String> {
    match text.strip_suffix('s').unwrap_or(text).parse() {
        Ok(seconds) if (1..=3_600).contains(&seconds) => Ok(seconds),
        _ => Err(format!("`{text}` is no number of seconds from 1 to 3600")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn everything_is_compared_by_default() {
        let options = parse("").expect("no flags");
        assert_eq!(options.servers.last(), Some(&Server::Glassline));
        assert_eq!(
            (options.layouts.len(), options.ramp.end, options.every),
            (2, 300, 5)
        );
        assert!(options.writes);
        assert!(!parse("--quick").expect("a flag").writes);
    }

    #[test]
    fn ours_is_last_in_whatever_order_it_is_asked_for() {
        let options = parse("--servers glassline,janus,pion --layouts shared").expect("flags");
        let names: Vec<&str> = options.servers.iter().map(|server| server.name()).collect();
        assert_eq!(names, ["pion", "janus", "glassline"]);
        assert_eq!(options.layouts, [Layout::Shared]);
    }

    #[test]
    fn flags_go_over_what_quick_means() {
        let options = parse("--quick --ramp 0:20:10 --every 2s --hold 4").expect("flags");
        let ramp = Ramp {
            start: 0,
            end: 20,
            step: 10,
        };
        assert_eq!((options.ramp, options.every, options.hold), (ramp, 2, 4));
    }

    #[test]
    fn moq_is_compared_by_its_own_flags() {
        let asked = |line: &str| parse(line).expect("flags").subject;
        assert_eq!(asked("--moq"), Subject::Moq(moq::Load::default()));
        let load = moq::Load {
            readers: 3,
            hold: Duration::from_secs(5),
        };
        assert_eq!(asked("--moq --readers 3 --hold 5s"), Subject::Moq(load));
        assert!(parse("--moq --readers 0").is_err());
    }

    #[test]
    fn what_is_compared_has_a_flag() {
        for (line, subject) in [
            ("", Subject::Viewers),
            ("--data --hold 8s", Subject::Data),
            ("--hls --quick --hold 8s", Subject::Hls),
            ("--record --hold 8s", Subject::Record),
            ("--whip", Subject::Whip),
        ] {
            assert_eq!(parse(line).expect("flags").subject, subject, "{line}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for line in [
            "--servers nginx",
            "--ramp 0:10",
            "--ramp 10:0:5",
            "--ramp 0:10:0",
            "--ramp 0:10:5:x",
            "--every",
            "--every 0s",
            "--layouts side",
            "--viewers 5",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn costs_are_compared_at_a_step_of_the_ramp() {
        let nearest = |text| Ramp::parse(text).expect("a ramp").nearest(100);
        assert_eq!(nearest("0:300:25"), 100);
        assert_eq!(nearest("0:20:10"), 20);
        assert_eq!(nearest("0:300:150"), 150);
        assert_eq!(nearest("200:400:50"), 200);
    }
}
