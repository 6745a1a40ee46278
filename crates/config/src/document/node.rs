//! A value with its place in a file.

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePosition {
    /// Index of the file in the document.
    pub(super) file: usize,
    /// Line and column, counted from 1; 0 for a variable of the environment.
    pub(super) line: u64,
    pub(super) column: u64,
}

/// A value, or a key.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Number within the document, by which a mistake names the value.
    pub(super) id: u32,
    pub(super) place: FilePosition,
    pub(crate) content: Content,
}

/// The kind of a value.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Text(Text),
    List(Vec<Node>),
    /// Keys with their values, in the order of the file.
    Map(Vec<(Node, Node)>),
}

/// A scalar as it is written.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(super) text: String,
    /// Whether the text has no quotes, so that it may also be a number, a switch or nothing.
    pub(super) is_plain: bool,
    /// Whether the text is the path of a file with the value (`!file`).
    pub(super) is_file: bool,
}

impl FilePosition {
    pub(super) const fn of_file(file: usize) -> Self {
        Self {
            file,
            line: 0,
            column: 0,
        }
    }

    pub(super) fn line_and_column(self) -> Option<(u64, u64)> {
        (self.line > 0).then_some((self.line, self.column))
    }
}

impl Text {
    /// Returns whether the text stands for no value.
    pub(super) fn is_nothing(&self) -> bool {
        let text = self.text.as_str();
        self.is_plain && (text.is_empty() || text == "~" || text.eq_ignore_ascii_case("null"))
    }
}

impl Node {
    /// Returns a text that is taken letter by letter.
    pub(super) fn text(id: u32, place: FilePosition, text: &str) -> Self {
        let content = Content::Text(Text {
            text: text.to_owned(),
            is_plain: false,
            is_file: false,
        });
        Self { id, place, content }
    }

    /// Returns whether the value is that of a key without one.
    pub(super) fn is_nothing(&self) -> bool {
        matches!(&self.content, Content::Text(text) if text.is_nothing())
    }

    /// Returns the text of a key.
    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    /// Removes the value of the key `name` and returns it.
    pub(crate) fn take(&mut self, name: &str) -> Option<Self> {
        let Content::Map(entries) = &mut self.content else {
            return None;
        };
        let at = entries
            .iter()
            .position(|(key, _)| key.as_text() == Some(name))?;
        Some(entries.remove(at).1)
    }

    /// Returns the keys below, which there are none of yet if the value is nothing or text.
    pub(crate) fn entries_mut(&mut self) -> &mut Vec<(Self, Self)> {
        if !matches!(self.content, Content::Map(_)) {
            self.content = Content::Map(Vec::new());
        }
        match &mut self.content {
            Content::Map(entries) => entries,
            _ => unreachable!("made a map above"),
        }
    }

    /// Puts `value` in place of that of the key `name`, which is at the place of the value.
    pub(crate) fn set(&mut self, name: &str, value: Self) {
        let entries = self.entries_mut();
        match entries
            .iter_mut()
            .find(|(key, _)| key.as_text() == Some(name))
        {
            Some((_, before)) => *before = value,
            None => {
                let key = Self::text(value.id, value.place, name);
                entries.push((key, value));
            }
        }
    }

    /// Returns the value of the key `name`, which is `absent` if there is none.
    pub(crate) fn section(&mut self, name: &str, absent: Self) -> &mut Self {
        let entries = self.entries_mut();
        let found = entries
            .iter()
            .position(|(key, _)| key.as_text() == Some(name));
        let at = found.unwrap_or_else(|| {
            let key = Self::text(absent.id, absent.place, name);
            entries.push((key, absent));
            entries.len() - 1
        });
        &mut entries[at].1
    }

    /// Makes the tree one of a variable, which has no lines.
    pub(super) fn forget_lines(&mut self) {
        self.place = FilePosition::of_file(self.place.file);
        match &mut self.content {
            Content::Text(_) => {}
            Content::List(entries) => entries.iter_mut().for_each(Self::forget_lines),
            Content::Map(entries) => entries.iter_mut().for_each(|(key, value)| {
                key.forget_lines();
                value.forget_lines();
            }),
        }
    }

    /// Leaves out the value or key with the number `id`, and notes the numbers of all values around
    /// it. Returns whether it was there.
    pub(super) fn leave_out(&mut self, id: u32, around: &mut Vec<u32>) -> bool {
        let is_left_out = match &mut self.content {
            Content::Text(_) => false,
            Content::List(entries) => {
                let before = entries.len();
                entries.retain(|it| it.id != id);
                entries.len() < before || entries.iter_mut().any(|it| it.leave_out(id, around))
            }
            Content::Map(entries) => {
                let before = entries.len();
                entries.retain(|(key, value)| key.id != id && value.id != id);
                entries.len() < before
                    || entries
                        .iter_mut()
                        .any(|(_, value)| value.leave_out(id, around))
            }
        };
        if is_left_out {
            around.push(self.id);
        }
        is_left_out
    }
}
