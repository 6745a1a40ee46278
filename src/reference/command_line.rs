//! The command line, from clap's definition of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory as _};

use super::{hold, markdown};

#[test]
fn the_page_of_the_command_line_agrees() {
    let mut program = crate::CommandLine::command();
    program.build();
    let mut text = String::new();
    let all: Vec<&Arg> = program.get_arguments().filter(|it| is_shown(it)).collect();
    let _ = writeln!(text, "## Every command\n\n{}", list(&all));
    let shared = Shared::of(&program);
    let _ = writeln!(text, "## Options of several commands\n\n{}", shared.list());
    for command in program.get_subcommands_mut() {
        write_command(command, &shared, &mut text);
    }
    hold("command-line.md", &text);
}

/// Lines of options that several commands have, by the spelling of the option.
struct Shared(BTreeMap<String, String>);

impl Shared {
    /// The lines that two commands or more have. Where options of one spelling differ, the line of
    /// the most commands is the shared one.
    fn of(program: &Command) -> Shared {
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut open = vec![program];
        while let Some(command) = open.pop() {
            for argument in documented(command).filter(|it| it.get_long().is_some()) {
                *counts
                    .entry((spelling(argument), item(argument)))
                    .or_default() += 1;
            }
            open.extend(command.get_subcommands().filter(|it| is_told(it)));
        }
        let mut lines: BTreeMap<String, (usize, String)> = BTreeMap::new();
        for ((spelling, item), count) in counts {
            let most = lines.entry(spelling).or_default();
            if count > most.0 {
                *most = (count, item);
            }
        }
        let lines = lines.into_iter().filter(|(_, (count, _))| *count > 1);
        Shared(
            lines
                .map(|(spelling, (_, item))| (spelling, item))
                .collect(),
        )
    }

    fn list(&self) -> String {
        self.0.values().map(|item| format!("- {item}\n")).collect()
    }

    fn has(&self, argument: &Arg) -> bool {
        self.0.get(&spelling(argument)) == Some(&item(argument))
    }
}

/// The arguments of a command that have a line on the page.
fn documented(command: &Command) -> impl Iterator<Item = &Arg> {
    let arguments = command.get_arguments();
    arguments.filter(|it| is_shown(it) && !it.is_global_set())
}

/// Whether a command has a section on the page.
fn is_told(command: &Command) -> bool {
    command.get_name() != "help" && !command.is_hide_set()
}

/// Appends the section of `command` and those of the commands below it.
fn write_command(command: &mut Command, shared: &Shared, text: &mut String) {
    if !is_told(command) {
        return;
    }
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let _ = writeln!(text, "## `{name}`\n");
    for paragraph in about.split("\n\n") {
        let _ = writeln!(text, "{}\n", sentence(&markdown(paragraph)));
    }
    let (also, own): (Vec<&Arg>, Vec<&Arg>) = documented(command).partition(|it| shared.has(it));
    if !own.is_empty() {
        let _ = writeln!(text, "{}", list(&own));
    }
    if !also.is_empty() {
        let names = also.iter().filter_map(|it| it.get_long());
        let also: Vec<String> = names.map(|name| format!("`--{name}`")).collect();
        let _ = writeln!(text, "Also: {}.\n", also.join(", "));
    }
    for below in command.get_subcommands_mut() {
        write_command(below, shared, text);
    }
}

/// Whether an argument is documented: not hidden, and not one that clap adds.
fn is_shown(argument: &Arg) -> bool {
    let is_claps = matches!(argument.get_id().as_str(), "help" | "version");
    !is_claps && !argument.is_hide_set()
}

fn list(arguments: &[&Arg]) -> String {
    let items = arguments.iter();
    items.map(|it| format!("- {}\n", item(it))).collect()
}

/// Line of an option, like `` `--clients N` (`100`): Number of … ``, with its default in brackets.
fn item(argument: &Arg) -> String {
    let mut item = format!("`{}`", spelling(argument));
    let takes_value = argument.get_action().takes_values();
    let defaults = argument.get_default_values();
    if takes_value && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let defaults: Vec<_> = defaults.iter().map(|it| it.to_string_lossy()).collect();
        let _ = write!(item, " (`{}`)", defaults.join(","));
    }
    let _ = write!(item, ": {}", help(argument));
    if argument.is_required_set() && argument.get_long().is_some() {
        item += " Required.";
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(item, " Environment: `{}`.", variable.to_string_lossy());
    }
    item
}

/// Name of an argument with its value, like `-q, --quiet`, `--shards N` or `URL`. Arguments without
/// a flag stand in the order of the command line; one that may be left out is in brackets, and `…`
/// stands behind one that may be repeated.
fn spelling(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default();
    let values = values.iter().map(ToString::to_string);
    let values: Vec<String> = match argument.get_action().takes_values() {
        true => values.collect(),
        false => Vec::new(),
    };
    let short = argument.get_short().map(|it| format!("-{it}"));
    let long = argument.get_long().map(|it| format!("--{it}"));
    let flags: Vec<String> = short.into_iter().chain(long).collect();
    if flags.is_empty() {
        let is_many = argument
            .get_num_args()
            .is_some_and(|it| it.max_values() > 1);
        let value = values.join(" ") + if is_many { "…" } else { "" };
        return match argument.is_required_set() {
            true => value,
            false => format!("[{value}]"),
        };
    }
    let parts: Vec<String> = [flags.join(", ")].into_iter().chain(values).collect();
    parts.join(" ")
}

fn help(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    sentence(&markdown(&help))
}

/// Adds the period that clap removes from the end of a comment.
fn sentence(text: &str) -> String {
    match text.chars().last() {
        None | Some('.' | ':') => text.to_owned(),
        Some(_) => format!("{text}."),
    }
}
