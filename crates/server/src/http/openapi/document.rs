//! Writes the document from the registrations.

use serde_json::{Map, Value, json};

use super::describe::{Description, SCHEMAS};
use super::{Registered, Routes};

/// The version of OpenAPI that the document has.
const OPENAPI: &str = "3.1.0";

impl Routes {
    /// Returns the document that describes the routes.
    pub(super) fn document(&self) -> Value {
        let mut description = Description::new();
        let mut paths = Map::new();
        for registered in &self.registered {
            let method = registered.method.as_str().to_ascii_lowercase();
            let operation = registered.operation(&mut description);
            let path = paths.entry(registered.path).or_insert_with(|| json!({}));
            path[method.as_str()] = operation;
        }
        let mut schemas = description.into_schemas();
        schemas.insert("Problem".to_owned(), problem());
        json!({
            "openapi": OPENAPI,
            "info": {
                "title": "Glassline",
                "version": env!("CARGO_PKG_VERSION"),
                "description": "Everything that the listener for operators serves. The reading part \
                    of `/api/v1` is on the port for viewers, too, with the rights of each.",
                "license": { "name": "MIT OR Apache-2.0" },
            },
            "servers": [{ "url": "/" }],
            "paths": paths,
            "components": { "schemas": schemas, "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "password": { "type": "http", "scheme": "basic" },
            } },
        })
    }
}

impl Registered {
    /// Returns the operation as the document has it.
    fn operation(&self, description: &mut Description) -> Value {
        (self.describe)(description);
        for (status, media_type, what) in &self.operation.plain {
            let schema = json!({ "type": "string" });
            description.answer_as(*status, media_type, what, &schema);
        }
        for answer in &self.operation.json {
            (answer.describe)(description, answer.status);
        }
        let answers = std::mem::take(&mut description.answers);
        let mut responses: Map<String, Value> = answers
            .into_iter()
            .map(|(status, answer)| (status.to_string(), answer))
            .collect();
        for (status, what) in &self.operation.problems {
            responses.insert(status.to_string(), refusal(what));
        }
        responses.insert(
            "default".to_owned(),
            refusal("What is wrong, and what to do"),
        );
        let mut operation = json!({
            "operationId": self.operation.id,
            "summary": self.operation.summary,
            "tags": [self.tag()],
            "description": match self.role() {
                Some(role) => format!("Needs the role `{role}`."),
                None => "For everybody who reaches the port.".to_owned(),
            },
            // The empty choice: a server may require nothing of this machine.
            "security": match self.role() {
                Some(_) => json!([{}, { "token": [] }, { "password": [] }]),
                None => json!([]),
            },
            "parameters": std::mem::take(&mut description.parameters),
            "responses": responses,
        });
        if let Some(body) = description.body.take() {
            operation["requestBody"] = body;
        }
        operation
    }

    /// Returns the group of the operation: what follows `/api/v1`.
    fn tag(&self) -> &'static str {
        let below = self.path.strip_prefix("/api/v1/");
        below.map_or("server", |below| below.split('/').next().unwrap_or(below))
    }
}

fn refusal(what: &str) -> Value {
    let schema = json!({ "$ref": format!("#{SCHEMAS}/Problem") });
    json!({
        "description": what,
        "content": { "application/problem+json": { "schema": schema } },
    })
}

/// Returns the schema of errors. Some have further members.
fn problem() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    json!({
        "type": "object",
        "description": "What is wrong (RFC 9457). Further members depend on the error.",
        "properties": {
            "type": text("`about:blank`"),
            "title": text("The kind of error."),
            "status": { "type": "integer", "description": "The status of the answer." },
            "detail": text("What happened here, and what to do."),
        },
        "required": ["type", "title", "status", "detail"],
    })
}
