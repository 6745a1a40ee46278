//! The command line: parses flags, runs a crate's entry point, prints its results.
//!
//! ```text
//! serve, demo ─► config (file, then flags) ─► glassline_server::Server ─► signals ─► shutdown
//! publish     ─► glassline_client::publish: source, queue, connection
//! call        ─► glassline_client::call ─► glassline_lab::call (delay of each stage)
//! trace       ─► HTTP API, or log files ─► glassline_lab::call ─► table, JSON, CSV
//! api         ─► HTTP API of a server ─► table, JSON
//! bench       ─► glassline_lab ─► table, JSON, CSV, SVG
//! doctor      ─► glassline_client::probe, glassline_server ─► findings
//! hls         ─► glassline_client::hls ─► glassline_hls::judge ─► findings
//! health      ─► the listener for operators of a running server ─► exit code
//! completions ─► clap's definition of the command line ─► script for a shell
//! ```
//!
//! Results go to stdout, everything else to stderr. Exit codes: 0 success, 1 failure while
//! running, 2 wrong usage or configuration, 3 a `--fail-if` condition was met or a check failed, 130
//! interrupted by Ctrl-C.

mod api_command;
mod bench;
mod call;
mod cameras_command;
mod cluster_command;
mod config_command;
mod config_import;
mod doctor;
mod exit;
mod flags;
mod health_command;
mod hls_command;
mod logging;
mod manual;
mod output;
mod password;
mod publish;
mod recordings_command;
mod recordings_export;
#[cfg(test)]
mod reference;
mod right_flags;
mod serve;
mod service_manager;
#[cfg(test)]
mod test_flags;
mod trace;
mod user_command;
mod version;

use clap::{CommandFactory as _, Parser, Subcommand};

use exit::Failure;
use glassline_server::Reloading;

/// A real-time media server that shows where every millisecond goes.
#[derive(Debug, Parser)]
#[command(name = "glassline", version = version::text(), propagate_version = true)]
struct CommandLine {
    #[command(flatten)]
    logging: logging::Options,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the built-in test stream; needs no configuration.
    Demo(flags::Demo),
    /// Serve cameras, files and published streams to viewers.
    Serve(flags::Serve),
    /// Publish a live stream to a server, at a bitrate that the path can carry.
    Publish(Box<publish::Options>),
    /// Make a voice call to another glassline, a browser, or a room of a server.
    ///
    /// `glassline call listen` prints the URL for the other end: another glassline, or a browser,
    /// which finds a page there. WAV files can replace microphone and loudspeaker; their samples
    /// then are the clock.
    Call(Box<call::Options>),
    /// Show the delay of each stage, for a stream of a server or for a call from log files.
    Trace(trace::Options),
    /// Measure a server, this one or another, or compare algorithms.
    #[command(subcommand)]
    Bench(bench::Benchmark),
    /// Check, print or describe the configuration.
    #[command(subcommand)]
    Config(config_command::Action),
    /// Show the cluster that a server is in, or drain the server.
    #[command(subcommand)]
    Cluster(cluster_command::Action),
    /// Find cameras of the network (ONVIF), and print a line of the configuration for each.
    Cameras(cameras_command::Options),
    /// Ask a running server what it has, and make, change and delete streams.
    #[command(subcommand)]
    Api(api_command::Action),
    /// Find out why it does not connect: check this machine's ports, kernel, clock, certificates and
    /// addresses, publish and play, or examine a server from outside.
    Doctor(doctor::Options),
    /// Judge the HLS of a server.
    #[command(subcommand)]
    Hls(hls_command::Action),
    /// List, export, check and repair recordings.
    #[command(subcommand)]
    Recordings(recordings_command::Action),
    /// Create users, for `auth.users` or the file that `auth.users_file` names.
    #[command(subcommand)]
    User(user_command::Action),
    /// Ask a running server whether it is well; exit code 1 if not, for health checks of containers.
    Health(health_command::Options),
    /// Print a script that completes command lines of glassline in a shell.
    Completions(manual::Completions),
    /// Write the pages for `man` into a folder.
    #[command(hide = true)]
    Manual(manual::Manual),
}

fn main() -> std::process::ExitCode {
    let command_line = CommandLine::parse();
    let code = unwound(|| run(command_line)).unwrap_or_else(|failure| {
        logging::print(&format!("glassline: {failure}"));
        failure.code()
    });
    logging::finish();
    code
}

/// Calls `run`, and makes a failure of its panic, so that the log is written to its end.
fn unwound(
    run: impl FnOnce() -> Result<std::process::ExitCode, Failure>,
) -> Result<std::process::ExitCode, Failure> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    caught.unwrap_or_else(|_payload| {
        let text = "the program panicked, which is a bug; the log has the place in the code";
        Err(Failure::runtime(text))
    })
}

fn run(command_line: CommandLine) -> Result<std::process::ExitCode, Failure> {
    let mut command_line = command_line;
    let quiet = command_line.logging.quiet;
    if matches!(command_line.command, Command::Doctor(_)) {
        // The findings say it; the server of the check would say it again.
        command_line.logging.keep_silent();
    }
    logging::start(&command_line.logging)?;
    match command_line.command {
        Command::Demo(flags) => serve::run(flags.config()?, Reloading::default(), quiet),
        Command::Serve(flags) => {
            let (config, load) = flags.start()?;
            let log = logging::filter_of_configuration(config.log.filter.as_deref())?;
            let load = Some(load);
            serve::run(config, Reloading { load, log }, quiet)
        }
        Command::Publish(options) => publish::run(&options, quiet),
        Command::Call(options) => call::run(&options, quiet),
        Command::Trace(options) => trace::run(&options, quiet),
        Command::Bench(benchmark) => bench::run(&benchmark, quiet),
        Command::Config(action) => config_command::run(&action, quiet),
        Command::Cluster(action) => cluster_command::run(&action, quiet),
        Command::Cameras(options) => cameras_command::run(&options, quiet),
        Command::Api(action) => api_command::run(&action, quiet),
        Command::Doctor(options) => doctor::run(&options, quiet),
        Command::Hls(action) => hls_command::run(&action, quiet),
        Command::Recordings(action) => recordings_command::run(&action, quiet),
        Command::User(action) => user_command::run(action, quiet),
        Command::Health(options) => health_command::run(&options, quiet),
        Command::Completions(options) => options.run(CommandLine::command()),
        Command::Manual(options) => options.run(CommandLine::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_program_is_a_failure_with_an_exit_code() {
        let failure = unwound(|| panic!("as told")).expect_err("it panicked");
        assert!(matches!(failure, Failure::Runtime(_)), "{failure}");
        assert!(unwound(|| Ok(std::process::ExitCode::SUCCESS)).is_ok());
    }

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    /// clap would take one flag for the other, and reports that only when the flag is used.
    #[test]
    fn no_flag_has_the_name_of_one_for_all_commands() {
        fn look(command: &clap::Command, global: &[clap::Id]) {
            for argument in command.get_arguments() {
                let (name, id) = (command.get_name(), argument.get_id());
                assert!(!global.contains(id), "{name} has a {id} of its own");
            }
            command.get_subcommands().for_each(|it| look(it, global));
        }
        let command = CommandLine::command();
        let global = command.get_arguments().filter(|it| it.is_global_set());
        let global: Vec<clap::Id> = global.map(|it| it.get_id().clone()).collect();
        assert!(global.len() > 1);
        command.get_subcommands().for_each(|it| look(it, &global));
    }
}
