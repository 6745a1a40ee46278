//! What the types of a handler say of its operation.

use std::collections::BTreeMap;
use std::future::Future;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use axum::{Json, http::StatusCode};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::super::created::{Created, NoContent};
use super::super::extract::{JsonBody, Path, Query};
use super::super::problem::Problem;
use super::super::server::Waiter;
use crate::app::App;

/// Where the document keeps its schemas.
pub(super) const SCHEMAS: &str = "/components/schemas";

/// The description of an operation while it is made, and the schemas of all of them.
#[derive(Debug)]
pub(in super::super) struct Description {
    /// Makes schemas of what the server reads: members with defaults may be left out.
    inputs: SchemaGenerator,
    /// Makes schemas of what the server writes.
    outputs: SchemaGenerator,
    pub(super) parameters: Vec<Value>,
    pub(super) body: Option<Value>,
    pub(super) answers: BTreeMap<u16, Value>,
}

impl Description {
    pub(super) fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|it| {
                it.definitions_path = SCHEMAS.into();
                it.meta_schema = None;
            })
        };
        Self {
            inputs: settings().for_deserialize().into_generator(),
            outputs: settings().for_serialize().into_generator(),
            parameters: Vec::new(),
            body: None,
            answers: BTreeMap::new(),
        }
    }

    /// Adds the members of `T` as parameters in the `place` that OpenAPI names `path` or `query`.
    pub(in super::super) fn parameters<T: JsonSchema>(&mut self, place: &str) {
        // The members are wanted here, not a reference to them.
        let schema = T::json_schema(&mut self.inputs);
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| {
            required.is_some_and(|names| names.iter().any(|it| it.as_str() == Some(name)))
        };
        let members = schema.get("properties").and_then(Value::as_object);
        for (name, schema) in members.into_iter().flatten() {
            let mut schema = schema.clone();
            let description = schema
                .as_object_mut()
                .and_then(|it| it.remove("description"));
            self.parameters.push(json!({
                "name": name,
                "in": place,
                "required": place == "path" || is_required(name),
                "description": description.unwrap_or_default(),
                "schema": schema,
            }));
        }
    }

    /// Adds a header that a request may have.
    pub(in super::super) fn header(&mut self, name: &str, description: &str) {
        self.parameters.push(json!({
            "name": name,
            "in": "header",
            "required": false,
            "description": description,
            "schema": { "type": "string" },
        }));
    }

    /// Sets the body of requests, in JSON.
    pub(in super::super) fn body<T: JsonSchema>(&mut self) {
        let schema = self.inputs.subschema_for::<T>();
        self.body = Some(json!({
            "required": true,
            "content": { "application/json": { "schema": schema } },
        }));
    }

    /// Adds an answer in JSON.
    pub(in super::super) fn answer<T: JsonSchema>(&mut self, status: u16, what: &str) {
        let schema = self.outputs.subschema_for::<T>();
        self.answer_as(status, "application/json", what, &schema.to_value());
    }

    /// Adds an answer, or another form of an answer, with its `meaning` and the schema of its content.
    pub(super) fn answer_as(
        &mut self,
        status: u16,
        media_type: &str,
        meaning: &str,
        schema: &Value,
    ) {
        let answer = self
            .answers
            .entry(status)
            .or_insert_with(|| json!({ "description": meaning, "content": {} }));
        answer["content"][media_type] = json!({ "schema": schema });
    }

    /// Returns the schemas that were named.
    pub(super) fn into_schemas(mut self) -> Map<String, Value> {
        let mut schemas = self.outputs.take_definitions(true);
        for (name, schema) in self.inputs.take_definitions(true) {
            let written = schemas.insert(name.clone(), schema.clone());
            debug_assert!(
                written.is_none_or(|written| written == schema),
                "{name} is read in one form and written in another: give the forms two names"
            );
        }
        schemas
    }
}

/// A handler whose operation can be described. `A` are the types of its arguments.
pub(in super::super) trait Describe<A> {
    fn describe(to: &mut Description);
}

/// A type of a handler's argument.
pub(in super::super) trait Argument {
    /// Describes what the argument takes from a request; nothing by default.
    fn describe(_to: &mut Description) {}
}

/// A type that a handler returns.
pub(in super::super) trait Answer {
    fn describe(to: &mut Description);
}

macro_rules! describe_handlers {
    ($(($($argument:ident),*)),* $(,)?) => {$(
        impl<F, Answered, A, $($argument),*> Describe<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Answered,
            Answered: Future<Output = A>,
            A: Answer,
            $($argument: Argument,)*
        {
            fn describe(to: &mut Description) {
                $(<$argument as Argument>::describe(to);)*
                A::describe(to);
            }
        }
    )*};
}

describe_handlers!(
    (),
    (A1),
    (A1, A2),
    (A1, A2, A3),
    (A1, A2, A3, A4),
    (A1, A2, A3, A4, A5),
);

impl Argument for State<App> {}
impl<T> Argument for Extension<T> {}
impl<T> Argument for Option<Extension<T>> {}
impl Argument for HeaderMap {}
impl Argument for Waiter {}
impl Argument for Body {}

impl<T: JsonSchema> Argument for Path<T> {
    fn describe(to: &mut Description) {
        to.parameters::<T>("path");
    }
}

impl<T: JsonSchema> Argument for Query<T> {
    fn describe(to: &mut Description) {
        to.parameters::<T>("query");
    }
}

impl<T: JsonSchema> Argument for JsonBody<T> {
    fn describe(to: &mut Description) {
        to.body::<T>();
    }
}

impl<T: Answer> Answer for Result<T, Problem> {
    fn describe(to: &mut Description) {
        T::describe(to);
    }
}

impl<T: JsonSchema> Answer for Json<T> {
    fn describe(to: &mut Description) {
        to.answer::<T>(200, "The answer");
    }
}

impl<T: Answer, const N: usize> Answer for ([(HeaderName, &'static str); N], T) {
    fn describe(to: &mut Description) {
        T::describe(to);
    }
}

impl<T: JsonSchema> Answer for Created<T> {
    fn describe(to: &mut Description) {
        to.answer::<T>(201, "It was created; `Location` has its path");
        to.answers.entry(201).and_modify(|it| {
            it["headers"]["Location"] =
                json!({ "description": "Its path", "schema": { "type": "string" } });
        });
    }
}

impl Answer for NoContent {
    fn describe(to: &mut Description) {
        to.answers
            .insert(204, json!({ "description": "It is done" }));
    }
}

impl Answer for StatusCode {
    fn describe(to: &mut Description) {
        to.answers
            .insert(202, json!({ "description": "It is done or will be, soon" }));
    }
}

/// The operation tells what a response of any form has.
impl Answer for Response {
    fn describe(_to: &mut Description) {}
}
