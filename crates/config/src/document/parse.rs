//! YAML text into a tree of values.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};

use super::Files;
use super::node::{Content, FilePosition, Node, Text};
use crate::load::Error;

/// Most values of all files, those that aliases repeat included.
const NODES_MAX: u32 = 500_000;

/// Deepest nesting of values. Our keys have six levels.
const DEPTH_MAX: usize = 32;

type Events<'a> = Parser<'a, granit_parser::StrInput<'a>>;

/// The state of parsing one text.
struct Parsing<'a, 'f> {
    events: Events<'a>,
    files: &'f mut Files,
    file: usize,
    anchors: HashMap<usize, Node>,
}

impl Files {
    /// Parses `text`, the first document in it.
    pub(super) fn parse(&mut self, text: &str, name: &str, folder: &Path) -> Result<Node, Error> {
        self.names.push((name.to_owned(), folder.to_owned()));
        let file = self.names.len() - 1;
        let mut parsing = Parsing {
            events: Parser::new_from_str(text),
            files: self,
            file,
            anchors: HashMap::new(),
        };
        parsing.document()
    }
}

impl Parsing<'_, '_> {
    fn document(&mut self) -> Result<Node, Error> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd | Event::DocumentEnd => {
                    let place = self.place(&span);
                    return Ok(Node {
                        id: self.files.id(),
                        place,
                        content: Content::Map(Vec::new()),
                    });
                }
                event => {
                    let node = self.node(event, &span, 0)?;
                    return self.end().map(|()| node);
                }
            }
        }
    }

    /// Checks that nothing follows the first document.
    fn end(&mut self) -> Result<(), Error> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(()),
                Event::DocumentStart(..) => {
                    return Err(self.error(&span, "a second document begins here: keep one"));
                }
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'static>, Span), Error> {
        let Some(event) = self.events.next_event() else {
            return Ok((Event::StreamEnd, Span::default()));
        };
        let (event, span) = event.map_err(|error| {
            let (line, column) = (error.marker().line(), error.marker().col());
            let place = Some((line as u64, column as u64 + 1));
            let (reason, tabs) = (error.info(), "tabs");
            match reason.starts_with(tabs) {
                true => self.error_at(place, &format!("{reason}: indent with spaces")),
                false => self.error_at(place, &reason),
            }
        })?;
        Ok((owned(event), span))
    }

    fn node(&mut self, event: Event<'static>, span: &Span, depth: usize) -> Result<Node, Error> {
        let place = self.place(span);
        let id = self.files.id();
        if id > NODES_MAX {
            return Err(self.error(
                span,
                "more values than a configuration has: aliases repeat them",
            ));
        }
        if depth > DEPTH_MAX {
            return Err(self.error(span, "more levels than a configuration has"));
        }
        let (content, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_file = self.is_file(tag.as_deref(), span)?;
                let is_string = tag.is_some_and(|tag| tag.suffix() == "str");
                let text = Text {
                    text: text.into_owned(),
                    is_plain: style == ScalarStyle::Plain && !is_string,
                    is_file,
                };
                (Content::Text(text), anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.list(depth)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.map(depth)?, anchor),
            Event::Alias(anchor) => {
                let found = self.anchors.get(&anchor).cloned();
                let found =
                    found.ok_or_else(|| self.error(span, "an alias within its own value"))?;
                return self.copy(found, place, span);
            }
            _ => return Err(self.error(span, "a value is expected here")),
        };
        let node = Node { id, place, content };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    /// Returns what an alias stands for, with numbers of its own.
    fn copy(&mut self, mut node: Node, place: FilePosition, span: &Span) -> Result<Node, Error> {
        node.place = place;
        node.id = self.files.id();
        if node.id > NODES_MAX {
            return Err(self.error(
                span,
                "more values than a configuration has: aliases repeat them",
            ));
        }
        node.content = match node.content {
            Content::Text(text) => Content::Text(text),
            Content::List(entries) => {
                let entries = entries.into_iter();
                let copied = entries.map(|it| self.copy(it, place, span));
                Content::List(copied.collect::<Result<_, _>>()?)
            }
            Content::Map(entries) => {
                let entries = entries.into_iter();
                let copied = entries.map(|(key, value)| {
                    Ok((self.copy(key, place, span)?, self.copy(value, place, span)?))
                });
                Content::Map(copied.collect::<Result<_, Error>>()?)
            }
        };
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Content, Error> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::SequenceEnd => return Ok(Content::List(entries)),
                event => entries.push(self.node(event, &span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Content, Error> {
        let mut entries: Vec<(Node, Node)> = Vec::new();
        let (mut names, mut merged) = (BTreeSet::new(), Vec::new());
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let key = self.node(event, &span, depth + 1)?;
            let Some(name) = key.as_text().map(str::to_owned) else {
                return Err(self.error(&span, "a key is text, like `http`"));
            };
            let (event, below) = self.next()?;
            let value = self.node(event, &below, depth + 1)?;
            if name == "<<" {
                merged.push(value);
                continue;
            }
            if !names.insert(name.clone()) {
                return Err(self.error(&span, &format!("key '{name}' is there twice")));
            }
            entries.push((key, value));
        }
        // Keys of `<<` are those of another map, unless this one has them itself.
        while let Some(value) = merged.pop() {
            match value.content {
                Content::List(values) => merged.extend(values.into_iter().rev()),
                Content::Map(more) => entries.extend(more.into_iter().filter(|(key, _)| {
                    key.as_text().is_some_and(|it| names.insert(it.to_owned()))
                })),
                Content::Text(_) => {
                    let place = value.place.line_and_column();
                    return Err(self.error_at(place, "`<<` takes a map, like *name"));
                }
            }
        }
        Ok(Content::Map(entries))
    }

    fn is_file(&self, tag: Option<&Tag>, span: &Span) -> Result<bool, Error> {
        let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) else {
            return Ok(false);
        };
        match (tag.handle(), tag.suffix()) {
            ("!", "file") => Ok(true),
            ("!", "") | ("", "!") => Ok(false),
            _ => Err(self.error(
                span,
                "the only tag is `!file`, which names a file with the value",
            )),
        }
    }

    fn place(&self, span: &Span) -> FilePosition {
        FilePosition {
            file: self.file,
            line: span.start.line() as u64,
            column: span.start.col() as u64 + 1,
        }
    }

    fn error(&self, span: &Span, reason: &str) -> Error {
        self.error_at(self.place(span).line_and_column(), reason)
    }

    fn error_at(&self, place: Option<(u64, u64)>, reason: &str) -> Error {
        Error {
            file: self.files.names[self.file].0.clone(),
            place,
            reason: reason.to_owned(),
            others: Vec::new(),
        }
    }
}

/// Returns the event without borrowed text.
fn owned(event: Event<'_>) -> Event<'static> {
    use std::borrow::Cow;
    let tag = |tag: Option<Cow<'_, Tag>>| tag.map(|it| Cow::Owned(it.into_owned()));
    match event {
        Event::Scalar(text, style, anchor, of) => {
            Event::Scalar(Cow::Owned(text.into_owned()), style, anchor, tag(of))
        }
        Event::SequenceStart(style, anchor, of) => Event::SequenceStart(style, anchor, tag(of)),
        Event::MappingStart(style, anchor, of) => Event::MappingStart(style, anchor, tag(of)),
        Event::Alias(anchor) => Event::Alias(anchor),
        Event::SequenceEnd => Event::SequenceEnd,
        Event::MappingEnd => Event::MappingEnd,
        Event::DocumentStart(is_explicit, version) => Event::DocumentStart(is_explicit, version),
        Event::DocumentEnd => Event::DocumentEnd,
        Event::StreamStart => Event::StreamStart,
        _ => Event::StreamEnd,
    }
}
