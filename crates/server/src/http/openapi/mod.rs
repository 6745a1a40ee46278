//! The routes of the API together with their description (OpenAPI 3.1).
//!
//! ```text
//! Routes::get(path, Operation, handler) ─┬► axum: the route
//!                                        └► Describe: what the handler's types say
//!              Path<T>, Query<T>, Page, JsonBody<T> ─► parameters and body
//!              Json<T>, Created<T>, NoContent ───────► answers
//! ```
//!
//! A route has one registration, so that the document names what the server serves and nothing
//! else. Schemas come from the types that are parsed and written. They are made when somebody asks
//! for the document.

mod describe;
mod document;
mod requirements;
mod served;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::MethodFilter;
use glassline_access::auth::Role;
use schemars::JsonSchema;

use crate::app::App;
pub(super) use describe::{Answer, Argument, Describe, Description};
pub(super) use requirements::{Requirement, Requirements};
pub(super) use served::routes;

/// Routes and their description.
#[derive(Debug, Default)]
pub(super) struct Routes {
    router: Router<App>,
    registered: Vec<Registered>,
}

/// A method of a path, with all that is known of it.
#[derive(Debug)]
struct Registered {
    method: Method,
    path: &'static str,
    operation: Operation,
    /// Describes what the types of the handler say.
    describe: fn(&mut Description),
}

/// The description of an operation for people, beside the types of its handler.
#[derive(Debug)]
pub(super) struct Operation {
    /// Name for programs that are made from the document, like `listStreams`.
    id: &'static str,
    summary: &'static str,
    /// Answers that the handler's types do not show: status, media type and meaning.
    plain: Vec<(u16, &'static str, &'static str)>,
    /// Answers in JSON that the handler's types do not show.
    json: Vec<JsonAnswer>,
    /// Statuses of errors with their meaning.
    problems: Vec<(u16, &'static str)>,
    needs: Needs,
}

/// The right that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Viewers of the server's state, for what only reads; else those with the role `admin`.
    Usual,
    /// Operators with this role.
    Role(Role),
    /// Everybody who reaches the port.
    Nothing,
}

/// An answer in JSON: its status, and what adds its schema to a description.
#[derive(Debug)]
struct JsonAnswer {
    status: u16,
    describe: fn(&mut Description, u16),
}

impl Operation {
    /// Creates the description of an operation. `id` is unique within the document.
    pub(super) const fn new(id: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            summary,
            plain: Vec::new(),
            json: Vec::new(),
            problems: Vec::new(),
            needs: Needs::Usual,
        }
    }

    /// Requires `role` in place of the usual one.
    pub(super) const fn needs(mut self, role: Role) -> Self {
        self.needs = Needs::Role(role);
        self
    }

    /// Lets everybody ask for the operation.
    pub(super) const fn for_everybody(mut self) -> Self {
        self.needs = Needs::Nothing;
        self
    }

    /// Adds an answer that is not JSON.
    pub(super) fn plain(
        mut self,
        status: u16,
        media_type: &'static str,
        what: &'static str,
    ) -> Self {
        self.plain.push((status, media_type, what));
        self
    }

    /// Adds an answer in JSON, for a handler whose type does not show it.
    pub(super) fn json<T: JsonSchema>(mut self, status: u16) -> Self {
        let describe = |to: &mut Description, status| to.answer::<T>(status, "The answer");
        self.json.push(JsonAnswer { status, describe });
        self
    }

    /// Adds the meaning of an error's status. Errors are problems (RFC 9457).
    pub(super) fn problem(mut self, status: u16, what: &'static str) -> Self {
        self.problems.push((status, what));
        self
    }
}

impl Registered {
    /// Returns the role that the operation needs; `None` if everybody may ask for it.
    fn role(&self) -> Option<Role> {
        match self.operation.needs {
            Needs::Usual if self.method.is_safe() => Some(Role::Viewer),
            Needs::Usual => Some(Role::Admin),
            Needs::Role(role) => Some(role),
            Needs::Nothing => None,
        }
    }
}

impl Routes {
    /// Adds a route for GET, and thereby for HEAD.
    pub(super) fn get<H, M, A>(self, path: &'static str, operation: Operation, handler: H) -> Self
    where
        H: Handler<M, App> + Describe<A>,
        M: 'static,
    {
        self.on(Method::GET, path, operation, handler)
    }

    /// Adds a route for `method`.
    pub(super) fn on<H, M, A>(
        mut self,
        method: Method,
        path: &'static str,
        operation: Operation,
        handler: H,
    ) -> Self
    where
        H: Handler<M, App> + Describe<A>,
        M: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("axum routes this method");
        self.router = self.router.route(path, axum::routing::on(filter, handler));
        self.registered.push(Registered {
            method,
            path,
            operation,
            describe: <H as Describe<A>>::describe,
        });
        self
    }

    /// Adds the routes of `other`.
    pub(super) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.registered.extend(other.registered);
        self
    }

    /// Returns who may ask for which operation.
    pub(super) fn requirements(&self) -> Requirements {
        Requirements::of(&self.registered)
    }

    /// Returns all paths.
    #[cfg(test)]
    pub(super) fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.registered.iter().map(|it| it.path)
    }

    /// Returns the routes without their description.
    pub(super) fn into_router(self) -> Router<App> {
        self.router
    }
}
