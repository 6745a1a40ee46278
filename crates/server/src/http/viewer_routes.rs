//! Routes for viewers, each with the right that it needs.

use std::collections::HashMap;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::MethodRouter;

use super::openapi::{Describe, Operation, Routes};
use super::rules::{Right, Rules, RulesByPath};
use crate::app::App;

/// Routes for viewers. A route without a right cannot be written.
#[derive(Debug)]
pub(crate) struct ViewerRoutes {
    protocol: &'static str,
    router: Router<App>,
    /// Routes whose handlers check passes.
    passed: Router<App>,
    /// Routes that operators have, too, with their description.
    described: Routes,
    rules: RulesByPath,
}

impl Default for ViewerRoutes {
    fn default() -> Self {
        Self::of("http")
    }
}

impl ViewerRoutes {
    /// Creates an empty set of routes of the protocol that a webhook is told as `protocol`.
    pub(crate) fn of(protocol: &'static str) -> Self {
        Self {
            protocol,
            router: Router::new(),
            passed: Router::new(),
            described: Routes::default(),
            rules: HashMap::new(),
        }
    }

    /// Adds `methods` of a path.
    pub(crate) fn route(
        mut self,
        path: &'static str,
        rules: impl Into<Rules>,
        methods: MethodRouter<App>,
    ) -> Self {
        self.router = self.router.route(path, methods);
        self.declare(path, rules.into())
    }

    /// Adds `methods` of a path whose handlers check passes themselves, of which clients ask so often that
    /// they have one layer around them only.
    pub(crate) fn passed(mut self, path: &'static str, methods: MethodRouter<App>) -> Self {
        self.passed = self.passed.route(path, methods);
        self.declare(path, Right::Session.into())
    }

    /// Adds a page. It is open as long as a token is all that is configured: without the token it shows
    /// nothing. If there are users, it needs `right`, so that the browser asks for name and password,
    /// and then sends them with everything that the page fetches.
    pub(crate) fn page(
        mut self,
        path: &'static str,
        right: Right,
        methods: MethodRouter<App>,
    ) -> Self {
        self.router = self.router.route(path, methods);
        let before = self.rules.get(path).copied();
        let rules = before.unwrap_or_else(|| right.into());
        let rules = rules.declared(path, self.protocol, Some(right));
        self.rules.insert(path, rules);
        self
    }

    /// Adds a route for GET, and thereby for HEAD, that operators have, too.
    pub(super) fn get<H, M, A>(
        mut self,
        path: &'static str,
        right: Right,
        operation: Operation,
        handler: H,
    ) -> Self
    where
        H: Handler<M, App> + Describe<A>,
        M: 'static,
    {
        self.described = self.described.get(path, operation, handler);
        self.declare(path, right.into())
    }

    /// Adds a route for POST that operators have, too.
    pub(super) fn post<H, M, A>(
        mut self,
        path: &'static str,
        right: Right,
        operation: Operation,
        handler: H,
    ) -> Self
    where
        H: Handler<M, App> + Describe<A>,
        M: 'static,
    {
        self.described = self.described.on(Method::POST, path, operation, handler);
        self.declare(path, right.into())
    }

    fn declare(mut self, path: &'static str, rules: Rules) -> Self {
        let page = self.rules.get(path).and_then(Rules::page);
        let rules = rules.declared(path, self.protocol, page);
        self.rules.insert(path, rules);
        self
    }

    /// Adds the routes of `other`.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.passed = self.passed.merge(other.passed);
        self.described = self.described.merge(other.described);
        self.rules.extend(other.rules);
        self
    }

    /// Returns the routes that operators have, too.
    pub(super) fn described(self) -> Routes {
        self.described
    }

    /// Removes the routes whose handlers check passes.
    pub(super) fn take_passed(&mut self) -> Router<App> {
        std::mem::take(&mut self.passed)
    }

    /// Returns the routes, and what they need.
    pub(super) fn into_router(self) -> (Router<App>, RulesByPath) {
        let router = self.router.merge(self.passed);
        (router.merge(self.described.into_router()), self.rules)
    }

    /// Returns all declared paths.
    #[cfg(test)]
    pub(crate) fn paths(&self) -> impl Iterator<Item = &'static str> {
        self.rules.keys().copied()
    }
}
