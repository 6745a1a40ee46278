//! Who may ask for which operation.

use std::collections::HashMap;

use axum::http::Method;
use glassline_access::auth::Role;

use super::Registered;

/// The requirement of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Requirement {
    /// Name of the operation in the document.
    pub(in super::super) action: &'static str,
    /// Least role; `None` if everybody may ask.
    pub(in super::super) role: Option<Role>,
}

/// The requirements of all operations, by path and method.
#[derive(Debug)]
pub(in super::super) struct Requirements(HashMap<&'static str, Vec<(Method, Requirement)>>);

impl Requirements {
    pub(super) fn of(registered: &[Registered]) -> Self {
        let mut by_path = HashMap::<_, Vec<_>>::new();
        for it in registered {
            let requirement = Requirement {
                action: it.operation.id,
                role: it.role(),
            };
            let of_path = by_path.entry(it.path).or_default();
            of_path.push((it.method.clone(), requirement));
        }
        Self(by_path)
    }

    /// Returns what a method of a route requires. What nobody serves is told to viewers alone.
    pub(in super::super) fn of_request(&self, method: &Method, route: &str) -> Requirement {
        let method = match *method {
            Method::HEAD => &Method::GET,
            _ => method,
        };
        let mut of_path = self.0.get(route).into_iter().flatten();
        let found = of_path.rfind(|(it, _)| it == method);
        let unknown = Requirement {
            action: "unknown",
            role: Some(Role::Viewer),
        };
        found.map_or(unknown, |(_, requirement)| *requirement)
    }
}
