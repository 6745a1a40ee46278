//! `glassline api`: lists, shows, makes, changes and deletes what a running server has.
//!
//! ```text
//! KIND ─► path of the API ─► request ─┬► table, or JSON
//!                                     └► problem ─► exit code 1
//! ```

mod kind;
mod logins;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use glassline_client::trust::Trust;
use glassline_lab::timestamp::rfc3339;
use glassline_runtime::is_deceptive;
use serde_json::{Map, Value};
use url::Url;

use crate::exit::Failure;
use crate::output;
use kind::Kind;

/// Longest time to wait for the server's answer. Files are read through before it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Entries that are asked for at a time, as many as the server gives.
const PAGE: usize = 1_000;

/// Where the server is, and the form of the output.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// URL of the server's admin port.
    #[arg(
        long,
        default_value = "http://127.0.0.1:9997",
        value_name = "URL",
        env = "GLASSLINE_ADMIN_URL"
    )]
    url: Url,
    /// Token for the admin port.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_ADMIN_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// Print the server's JSON in place of text.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List what the server has.
    List(List),
    /// Show a stream and its source.
    Show(Named),
    /// Make a stream with its source, which survives restarts of the server.
    Create(Source),
    /// Give a stream that was made over the API another source. Its viewers stay.
    Change(Source),
    /// End the source of a stream and begin it anew. Its viewers stay.
    Restart(Named),
    /// Delete a stream that was made over the API. Its viewers end.
    Delete(Named),
    /// Make, change and delete users.
    #[command(subcommand)]
    User(logins::UserAction),
    /// Make, change and delete tokens.
    #[command(subcommand)]
    Token(logins::TokenAction),
}

/// A list, and what of it is wanted.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// The kind of list: streams, sources, files, viewers, publishers, rtsp-clients, quic-sessions,
    /// transcodings, failures, events, users, tokens or audit.
    #[arg(value_enum, hide_possible_values = true)]
    kind: Kind,
    /// Filter of the API, like 'status=live' or 'name=cam*'. Repeatable.
    #[arg(long = "where", value_name = "KEY=VALUE", value_parser = filter)]
    filters: Vec<(String, String)>,
    #[command(flatten)]
    target: Target,
}

/// A stream by its name.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// Name of the stream.
    name: String,
    #[command(flatten)]
    target: Target,
}

/// The source of a stream.
#[derive(Debug, Args)]
pub(crate) struct Source {
    /// Name of the stream.
    name: String,
    /// `rtsp://…`, files separated by commas, `publisher`, or `demo`; `-` reads stdin, which hides
    /// passwords.
    source: String,
    /// Option of the source, like 'on_demand=true' or 'transport=udp'. Repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = filter)]
    options: Vec<(String, String)>,
    #[command(flatten)]
    target: Target,
}

impl Target {
    /// Returns the URL of the admin port.
    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the token for the admin port.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the server at `url`, asked with `token` if there is one.
    pub(crate) const fn new(url: Url, token: Option<String>) -> Self {
        let json = false;
        Self { url, token, json }
    }
}

fn filter(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let pair = pair.ok_or_else(|| format!("'{text}' is no KEY=VALUE"))?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

pub(crate) fn run(action: &Action, quiet: bool) -> Result<ExitCode, Failure> {
    let shown = match action {
        Action::List(list) => {
            let found = Api::new(&list.target).list(list.kind, &list.filters)?;
            match list.target.json {
                true => output::json(&Value::Object(found)),
                false => table(list.kind, &found),
            }
        }
        Action::Show(Named { name, target }) => show(&Api::new(target), name, target.json)?,
        Action::Create(source) => {
            let made = Api::new(&source.target).put(source, "if-none-match")?;
            done(&made, source.target.json, quiet, "made")
        }
        Action::Change(source) => {
            let changed = Api::new(&source.target).put(source, "if-match")?;
            done(&changed, source.target.json, quiet, "changed")
        }
        Action::Restart(Named { name, target }) => {
            Api::new(target).send("POST", &["sources", name, "restart"], &[], None)?;
            match quiet || target.json {
                true => String::new(),
                false => format!("{name}: restarted\n"),
            }
        }
        Action::Delete(Named { name, target }) => {
            Api::new(target).send("DELETE", &["sources", name], &[], None)?;
            match quiet || target.json {
                true => String::new(),
                false => format!("{name}: deleted\n"),
            }
        }
        Action::User(action) => logins::of_user(action, quiet)?,
        Action::Token(action) => logins::of_token(action, quiet)?,
    };
    output::print(&shown)?;
    Ok(ExitCode::SUCCESS)
}

fn done(source: &Value, json: bool, quiet: bool, what: &str) -> String {
    match (json, quiet) {
        (true, _) => output::json(source),
        (false, true) => String::new(),
        (false, false) => format!(
            "{}: {what}, {}\n",
            text(&source["name"]),
            text(&source["source"])
        ),
    }
}

/// Shows a stream with its source. One of them may be missing: a publisher's stream has no source.
fn show(api: &Api<'_>, name: &str, json: bool) -> Result<String, Failure> {
    let stream = api.send("GET", &["streams", name], &[], None);
    let source = api.send("GET", &["sources", name], &[], None);
    let (stream, source) = match (stream, source) {
        (Err(error), Err(_)) => return Err(error),
        (stream, source) => (stream.unwrap_or_default(), source.unwrap_or_default()),
    };
    if json {
        let both = Map::from_iter([("stream".to_owned(), stream), ("source".to_owned(), source)]);
        return Ok(output::json(&Value::Object(both)));
    }
    let rows = [
        ("stream", name.to_owned()),
        ("status", text(&stream["status"])),
        ("detail", text(&stream["detail"])),
        ("viewers", text(&stream["viewers"])),
        ("bitrate_bps", text(&stream["bitrate_bps"])),
        ("tracks", tracks(&stream)),
        ("source", text(&source["source"])),
        ("origin", text(&source["origin"])),
        ("problem", text(&source["problem"])),
    ];
    let rows = rows.iter().filter(|(_, value)| value != "-");
    Ok(rows
        .map(|(key, value)| format!("{key:<12} {value}\n"))
        .collect())
}

/// Client of a server's API for operators.
pub(crate) struct Api<'a> {
    agent: ureq::Agent,
    target: &'a Target,
}

impl<'a> Api<'a> {
    pub(crate) fn new(target: &'a Target) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .allow_non_standard_methods(true)
            .build();
        Self {
            agent: glassline_client::agent::agent(config, Trust::System),
            target,
        }
    }

    /// Returns the whole list, whatever number of pages it has.
    fn list(
        &self,
        kind: Kind,
        filters: &[(String, String)],
    ) -> Result<Map<String, Value>, Failure> {
        let (path, member) = kind.place();
        let mut whole = Map::new();
        let mut entries = Vec::new();
        for page in 1_usize.. {
            let mut query = filters.to_vec();
            query.push(("limit".to_owned(), PAGE.to_string()));
            query.push(("page".to_owned(), page.to_string()));
            let mut answer = self.send("GET", path, &query, None)?;
            let total = answer["total"].as_u64().unwrap_or_default();
            let some = match answer[member].take() {
                Value::Array(some) => some,
                _ => Vec::new(),
            };
            let is_last = some.len() < PAGE;
            entries.extend(some);
            whole = match answer {
                Value::Object(members) => members,
                _ => Map::new(),
            };
            if is_last || entries.len() as u64 >= total {
                break;
            }
        }
        // The pages were those of the requests, and are none of what is shown.
        whole.remove("page");
        whole.remove("limit");
        whole.insert(member.to_owned(), Value::Array(entries));
        Ok(whole)
    }

    fn put(&self, source: &Source, condition: &'static str) -> Result<Value, Failure> {
        let mut keys = Map::new();
        let text = match source.source.as_str() {
            "-" => std::io::read_to_string(std::io::stdin())
                .map_err(|error| Failure::runtime(format_args!("stdin: {error}")))?
                .trim()
                .to_owned(),
            text => text.to_owned(),
        };
        keys.insert("source".to_owned(), text.into());
        for (key, value) in &source.options {
            // Numbers and switches are not text in JSON.
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.as_str().into());
            keys.insert(key.clone(), value);
        }
        let body = Value::Object(keys).to_string();
        let path = ["sources", source.name.as_str()];
        self.send("PUT", &path, &[], Some((&body, Some(condition))))
    }

    /// Sends JSON without a condition, and returns that of the answer.
    pub(crate) fn send_json(
        &self,
        method: &str,
        path: &[&str],
        body: &Value,
    ) -> Result<Value, Failure> {
        self.send(method, path, &[], Some((&body.to_string(), None)))
    }

    /// Sends a request, and returns the JSON of the answer. A body may have a condition, whose value
    /// is `*`.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &[&str],
        query: &[(String, String)],
        body: Option<(&str, Option<&'static str>)>,
    ) -> Result<Value, Failure> {
        let server = &self.target.url;
        let mut url = server.clone();
        let segments = url.path_segments_mut();
        let mut segments =
            segments.map_err(|()| Failure::usage(format_args!("{server}: no http URL")))?;
        segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        drop(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(url.as_str());
        if let Some(token) = &self.target.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if let Some((_, condition)) = body {
            request = request.header("content-type", "application/json");
            if let Some(condition) = condition {
                request = request.header(condition, "*");
            }
        }
        let unreachable = |error: ureq::Error| {
            let hint = "is `glassline serve` running there, and is that its admin port?";
            Failure::runtime(format_args!("{server}: {error}; {hint}"))
        };
        let text = body.map_or("", |(text, _)| text).to_owned();
        let request = request
            .body(text)
            .map_err(|error| unreachable(error.into()))?;
        let mut response = self.agent.run(request).map_err(unreachable)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = body.read_to_string().map_err(unreachable)?;
        let json = serde_json::from_str::<Value>(&body);
        match status {
            204 => Ok(Value::Null),
            200..=299 => json.map_err(|_| {
                Failure::runtime(format_args!(
                    "{server}: the answer is no JSON: is it the admin port?"
                ))
            }),
            _ => {
                let problem = json.unwrap_or_default();
                let told = problem["detail"].as_str().or(problem["title"].as_str());
                let told = told.map_or_else(|| format!("HTTP status {status}"), str::to_owned);
                Err(Failure::runtime(told))
            }
        }
    }
}

/// Returns the entries of a list as a table; an empty list has its head only.
fn table(kind: Kind, list: &Map<String, Value>) -> String {
    let columns = kind.columns();
    let entries = list.get(kind.place().1).and_then(Value::as_array);
    let head = columns.iter().map(ToString::to_string).collect();
    let mut rows: Vec<Vec<String>> = vec![head];
    for entry in entries.into_iter().flatten() {
        rows.push(columns.iter().map(|it| cell(it, &entry[*it])).collect());
    }
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max();
    let widths: Vec<_> = (0..columns.len())
        .map(|at| width(at).unwrap_or(0))
        .collect();
    let mut table = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        table += line.join("  ").trim_end();
        table.push('\n');
    }
    table
}

/// Returns the value of a column as a cell: times of the calendar as ISO 8601 has them.
fn cell(column: &str, value: &Value) -> String {
    let at = value.as_u64().filter(|_| column.ends_with("at_ms"));
    at.map_or_else(|| text(value), |ms| rfc3339(ms / 1000))
}

/// Returns a value as a cell of a table. A space stands for each character that would change how the
/// row is shown.
pub(crate) fn text(value: &Value) -> String {
    let text = match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    };
    text.replace(is_deceptive, " ")
}

fn tracks(stream: &Value) -> String {
    let tracks = stream["tracks"].as_array();
    let names = tracks
        .into_iter()
        .flatten()
        .map(|track| text(&track["codec"]));
    let names: Vec<_> = names.collect();
    if names.is_empty() {
        "-".to_owned()
    } else {
        names.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_a_head_and_a_line_for_each_entry() {
        let list = json!({ "sources": [
            { "name": "door", "kind": "camera", "origin": "api", "source": "rtsp://a/", "problem": null },
            { "name": "x\u{1b}[2J", "kind": "demo", "origin": "configuration", "source": "demo", "problem": "gone" },
        ]});
        let list = list.as_object().expect("an object");
        let table = table(Kind::Sources, list);
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines[0], "name   kind    origin         source     problem");
        assert_eq!(lines[1], "door   camera  api            rtsp://a/  -");
        assert_eq!(lines[2], "x [2J  demo    configuration  demo       gone");
    }

    #[test]
    fn times_are_written_as_people_read_them() {
        assert_eq!(
            cell("at_ms", &json!(1_795_930_865_328_u64)),
            "2026-11-29T05:41:05Z"
        );
        assert_eq!(cell("lag_ms", &json!(12)), "12");
    }

    #[test]
    fn options_are_pairs() {
        assert_eq!(filter("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(filter("a").is_err() && filter("=b").is_err());
    }
}
