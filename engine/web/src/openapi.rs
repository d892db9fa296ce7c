//! `GET /api/v1/openapi.json`: the API as a document (`OpenAPI` 3.1, <https://spec.openapis.org/oas/v3.1.1.html>).

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::Server;
use super::body::{Json, NDJSON};
use super::problem::Problem;
use super::routes::GROUPS;

pub enum Answer {
    Nothing,
    /// JSON of this schema.
    Json(Value),
    /// A thread, accepted: 202 with its address.
    Accepted,
    /// The same, or JSON of this schema if the request only asks what would be.
    AcceptedOr(Value),
    /// A text of this media type.
    Text(&'static str),
    /// Events of this schema, one after the other.
    Events(Value),
    /// The same up to a last event; 204 to a client that has it.
    EventsToEnd(Value),
}

type Method = (MethodFilter, &'static str);
pub const GET: Method = (MethodFilter::GET, "get");
pub const POST: Method = (MethodFilter::POST, "post");
pub const DELETE: Method = (MethodFilter::DELETE, "delete");

pub struct Operation {
    method: &'static str,
    pub path: &'static str,
    pub route: MethodRouter<Server>,
    about: &'static str,
    /// The schema of an object that has the parameters of the query as its properties.
    query: Option<Value>,
    body: Option<Value>,
    /// Whether a request without the body is one with an empty object.
    takes_no_body: bool,
    /// Whether it needs no key.
    is_open: bool,
    answer: Answer,
}

impl Answer {
    fn responses(&self) -> Map<String, Value> {
        const JSON: &str = "application/json";
        let (status, response) = match self {
            Self::Nothing => ("204", json!({"description": "Done."})),
            Self::Json(schema) => ("200", response("As asked.", JSON, schema)),
            Self::Text(media) => ("200", response("As asked.", media, &json!({"type": "string"}))),
            Self::Events(schema) | Self::EventsToEnd(schema) => {
                ("200", response("As they come.", "text/event-stream", schema))
            }
            Self::Accepted | Self::AcceptedOr(_) => {
                let location = json!({"Location": {"schema": {"type": "string"}, "description": "The thread."}});
                let content = json!({JSON: {"schema": {"$ref": "#/components/schemas/ThreadView"}}});
                ("202", json!({"description": "The thread.", "headers": location, "content": content}))
            }
        };
        let mut responses = Map::from_iter([(status.to_owned(), response)]);
        if let Self::AcceptedOr(schema) = self {
            responses.insert("200".to_owned(), self::response("As asked.", JSON, schema));
        }
        if let Self::EventsToEnd(_) = self {
            responses.insert("204".to_owned(), json!({"description": "The client has the last event."}));
        }
        responses
    }
}

fn response(about: &str, media: &str, schema: &Value) -> Value {
    json!({"description": about, "content": {media: {"schema": schema}}})
}

pub fn route<T: 'static>(
    (filter, method): Method,
    path: &'static str,
    handler: impl Handler<T, Server>,
    about: &'static str,
    answer: Answer,
) -> Operation {
    let route = on(filter, handler);
    Operation { method, path, route, about, query: None, body: None, takes_no_body: false, is_open: false, answer }
}

impl Operation {
    pub fn query(self, schema: Value) -> Self {
        Self { query: Some(schema), ..self }
    }

    pub fn body(self, schema: Value) -> Self {
        Self { body: Some(schema), ..self }
    }

    /// A body that can be left out.
    pub fn optional_body(self, schema: Value) -> Self {
        Self { body: Some(schema), takes_no_body: true, ..self }
    }

    /// For requests without a key.
    pub fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    fn object(&self, problem: &Value) -> Value {
        let in_path = self.path.split(['{', '}']).skip(1).step_by(2);
        let in_path = in_path.map(|name| {
            let kind = if name == "seq" { "integer" } else { "string" };
            json!({"name": name, "in": "path", "required": true, "schema": {"type": kind}})
        });
        let in_query = self.query.as_ref().map(in_query).unwrap_or_default();
        let mut responses = self.answer.responses();
        responses.insert("default".to_owned(), response("A problem.", "application/problem+json", problem));
        let parameters: Vec<Value> = in_path.chain(in_query).collect();
        let mut object = json!({"summary": self.about, "parameters": parameters, "responses": responses});
        let body = self.body.as_ref().map(
            |schema| json!({"required": !self.takes_no_body, "content": {"application/json": {"schema": schema}}}),
        );
        let security = self.is_open.then(|| json!([]));
        if let Some(members) = object.as_object_mut() {
            let others = [("requestBody", body), ("security", security)];
            members.extend(others.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        object
    }
}

/// The parameters that are the properties of a schema.
fn in_query(schema: &Value) -> Vec<Value> {
    let is_required = |name: &str| {
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|required| required.iter().any(|known| known == name))
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        // What is not given is left out, and `null` stands in no query.
        if let Some(members) = schema.as_object_mut() {
            members.retain(|key, value| key != "default" || !value.is_null());
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|kind| kind != "null");
                let only = types.first().cloned().filter(|_| types.len() == 1);
                members.extend(only.map(|kind| ("type".to_owned(), kind)));
            }
        }
        let about = schema.as_object_mut().and_then(|members| members.remove("description"));
        let mut parameter = json!({"name": name, "in": "query", "required": is_required(name), "schema": schema});
        if let (Some(about), Some(members)) = (about, parameter.as_object_mut()) {
            members.insert("description".to_owned(), about);
        }
        parameter
    };
    properties.into_iter().flatten().map(parameter).collect()
}

/// Many readers of such documents ignore what stands beside a reference or a choice: each goes into a schema of its own.
fn alone(schema: &mut Schema) {
    transform_subschemas(&mut alone, schema);
    let Some(members) = schema.as_object_mut().filter(|members| members.contains_key("properties")) else { return };
    let parts = ["$ref", "oneOf", "anyOf"].map(|key| members.remove(key).map(|part| json!({key: part})));
    let mut parts: Vec<Value> = parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        parts.push(Value::Object(std::mem::take(members)));
        members.insert("allOf".to_owned(), Value::Array(parts));
    }
}

/// The schemas of answers, and those of requests.
pub struct Schemas {
    answers: SchemaGenerator,
    requests: SchemaGenerator,
}

impl Schemas {
    pub fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|of| {
            of.definitions_path = "/components/schemas".into();
            of.transforms.push(Box::new(alone));
        });
        let [answers, requests] =
            [settings.clone().for_serialize(), settings.for_deserialize()].map(SchemaSettings::into_generator);
        Self { answers, requests }
    }

    pub fn answer<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().to_value()
    }

    pub fn json<T: JsonSchema>(&mut self) -> Answer {
        Answer::Json(self.answer::<T>())
    }

    pub fn body<T: JsonSchema>(&mut self) -> Value {
        self.requests.subschema_for::<T>().to_value()
    }

    pub fn query<T: JsonSchema>(&mut self) -> Value {
        T::json_schema(&mut self.requests).to_value()
    }
}

pub async fn document() -> Json<Value> {
    let mut schemas = Schemas::new();
    let problem = schemas.answer::<Problem>();
    let mut paths = Map::new();
    for (prefix, operations) in GROUPS {
        for operation in operations(&mut schemas) {
            let path = paths.entry(format!("{prefix}{}", operation.path)).or_insert_with(|| json!({}));
            if let Some(path) = path.as_object_mut() {
                path.insert(operation.method.to_owned(), operation.object(&problem));
            }
        }
    }
    let Schemas { mut answers, mut requests } = schemas;
    let mut components = answers.take_definitions(true);
    components.extend(requests.take_definitions(true));
    let about_key = "The server's token, or the key of a session.";
    let security = json!({"key": {"type": "http", "scheme": "bearer", "description": about_key}});
    let about = format!("`rondo explain api` is its page. Lists of steps and requests are also {NDJSON}.");
    Json(json!({
        "openapi": "3.1.0",
        "info": {"title": "rondo", "version": env!("CARGO_PKG_VERSION"), "description": about},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": security},
        "security": [{"key": []}],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_schemas_have_one_name() {
        let mut schemas = Schemas::new();
        assert!(GROUPS.map(|(_, operations)| operations(&mut schemas).len()).iter().sum::<usize>() > 20);
        let Schemas { mut answers, mut requests } = schemas;
        let answers = answers.take_definitions(true);
        for (name, schema) in requests.take_definitions(true) {
            assert!(answers.get(&name).is_none_or(|other| *other == schema), "{name}");
        }
    }
}
