use glassline_access::auth::Action;

/// A use of a stream beyond watching it live, which a request wants.
#[derive(Clone, Copy)]
pub(in crate::http) struct Change<'a> {
    pub(super) action: Action,
    pub(super) stream: &'a str,
}

impl<'a> Change<'a> {
    pub(in crate::http) const fn new(action: Action, stream: &'a str) -> Self {
        Self { action, stream }
    }
}

/// Returns the verb of what is done to a stream by `action`.
pub(super) const fn done_by(action: Action) -> &'static str {
    match action {
        Action::Read => "watch",
        Action::Publish | Action::Call => "publish",
        Action::Ptz => "move cameras",
        Action::Playback => "watch recordings",
        Action::Record => "control recording",
        Action::Export => "export recordings",
    }
}
