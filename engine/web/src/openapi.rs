//! `GET /api/v1/openapi.json`: the API as a document (`OpenAPI` 3.1, <https://spec.openapis.org/oas/v3.1.1.html>).

use rondo::picture::json::Graph;
use rondo::protocol::event::EventLine;
use rondo::views::fork::ForkLine;
use rondo::views::lines::RecordLine;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema as _, Schema};
use serde_json::{Map, Value, json};

use super::Health;
use super::access::{SessionBegun, SessionRequest};
use super::batches::{BatchList, BatchView, LinesQuery};
use super::body::{Json, NDJSON};
use super::changes::{AnswerRequest, ForkBody, ResumeRequest};
use super::events::EventsQuery;
use super::model::chat::{ChatRequest, Completion};
use super::model::{ModelList, ModelView};
use super::problem::Problem;
use super::reports::{DiffQuery, DiffReport, PrefixReport, UsageQuery, UsageReport};
use super::starting::StartRequest;
use super::steps::{Requests, StepList, StepsQuery};
use super::threads::{ListQuery, ThreadList, ThreadView};
use super::workflows::{WorkflowDetails, WorkflowList};

/// What an address answers with.
enum Answer {
    Nothing,
    /// JSON of this schema.
    Json(Value),
    /// A thread, accepted: 202 with its address. Or JSON of this schema, if the request only asks what would be.
    Accepted {
        or: Option<Value>,
    },
    /// A text of this media type.
    Text(&'static str),
    /// Events of this schema, one after the other.
    Events(Value),
}

/// What is done at an address: its method, its path, what it is for, and its parameters of the query.
struct Operation {
    method: &'static str,
    path: &'static str,
    about: &'static str,
    /// The schema of an object with them as its properties.
    query: Option<Value>,
    body: Option<Value>,
    answer: Answer,
}

impl Answer {
    /// The responses, by status.
    fn responses(&self) -> Map<String, Value> {
        const JSON: &str = "application/json";
        let (status, response) = match self {
            Self::Nothing => ("204", json!({"description": "Done."})),
            Self::Json(schema) => ("200", response("As asked.", JSON, schema)),
            Self::Text(media) => ("200", response("As asked.", media, &json!({"type": "string"}))),
            Self::Events(schema) => ("200", response("As they come.", "text/event-stream", schema)),
            Self::Accepted { .. } => {
                let location = json!({"Location": {"schema": {"type": "string"}, "description": "The thread."}});
                let content = json!({JSON: {"schema": {"$ref": "#/components/schemas/ThreadView"}}});
                ("202", json!({"description": "The thread.", "headers": location, "content": content}))
            }
        };
        let mut responses = Map::from_iter([(status.to_owned(), response)]);
        if let Self::Accepted { or: Some(schema) } = self {
            responses.insert("200".to_owned(), self::response("As asked.", JSON, schema));
        }
        responses
    }
}

/// A response with a body of this media type and schema.
fn response(about: &str, media: &str, schema: &Value) -> Value {
    json!({"description": about, "content": {media: {"schema": schema}}})
}

fn operation(method: &'static str, path: &'static str, about: &'static str, answer: Answer) -> Operation {
    Operation { method, path, about, query: None, body: None, answer }
}

impl Operation {
    fn query(self, schema: Schema) -> Self {
        Self { query: Some(schema.to_value()), ..self }
    }

    fn body(self, schema: Value) -> Self {
        Self { body: Some(schema), ..self }
    }

    /// The document's object of it.
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
        if let (Some(schema), Some(members)) = (&self.body, object.as_object_mut()) {
            let body = json!({"required": true, "content": {"application/json": {"schema": schema}}});
            members.insert("requestBody".to_owned(), body);
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

/// The operations, whose schemas are added to those of answers and of requests.
fn operations(answers: &mut SchemaGenerator, requests: &mut SchemaGenerator) -> Vec<Operation> {
    macro_rules! of {
        ($type:ty) => {
            answers.subschema_for::<$type>().to_value()
        };
    }
    macro_rules! given {
        ($type:ty) => {
            requests.subschema_for::<$type>().to_value()
        };
    }
    macro_rules! asked {
        ($type:ty) => {
            <$type>::json_schema(requests)
        };
    }
    let json = Answer::Json;
    let event = of!(EventLine<'_>);
    let open = json!({"type": "object"});
    vec![
        operation("post", "/api/v1/session", "Begin a session", json(of!(SessionBegun))).body(given!(SessionRequest)),
        operation("delete", "/api/v1/session", "End the session that sends it, or with the token all", Answer::Nothing),
        operation("get", "/api/v1/healthz", "Whether the server answers", json(of!(Health))),
        operation("get", "/api/v1/openapi.json", "This document", json(open)),
        operation("get", "/api/v1/workflows", "The workflows that can be started", json(of!(WorkflowList))),
        operation("get", "/api/v1/workflows/{name}", "A workflow, with its input", json(of!(WorkflowDetails))),
        operation("get", "/api/v1/workflows/{name}/graph", "Its graph", json(of!(Graph<'_>))),
        operation("get", "/api/v1/threads", "Threads, newest first", json(of!(ThreadList))).query(asked!(ListQuery)),
        operation("post", "/api/v1/threads", "Start a thread", Answer::Accepted { or: None })
            .body(given!(StartRequest)),
        operation("get", "/api/v1/threads/{thread}", "A thread", json(of!(ThreadView))),
        operation("get", "/api/v1/threads/{thread}/steps", "Its steps", json(of!(StepList))).query(asked!(StepsQuery)),
        operation("get", "/api/v1/threads/{thread}/steps/{seq}", "A step", json(of!(RecordLine))),
        operation("get", "/api/v1/threads/{thread}/steps/{seq}/messages", "Its requests", json(of!(Requests))),
        operation("get", "/api/v1/threads/{thread}/prefix", "What its requests share", json(of!(PrefixReport))),
        operation("get", "/api/v1/threads/{thread}/usage", "What its steps used", json(of!(UsageReport))),
        operation("get", "/api/v1/threads/{thread}/diff", "How another thread differs", json(of!(DiffReport)))
            .query(asked!(DiffQuery)),
        operation("get", "/api/v1/threads/{thread}/graph", "The graph that it runs", json(of!(Graph<'_>))),
        operation("get", "/api/v1/threads/{thread}/scenario", "A scenario of it", Answer::Text("text/yaml")),
        operation("get", "/api/v1/threads/{thread}/events", "Its events", Answer::Events(event.clone()))
            .query(asked!(EventsQuery)),
        operation("post", "/api/v1/threads/{thread}/resume", "Resume it", Answer::Accepted { or: None })
            .body(given!(ResumeRequest)),
        operation("post", "/api/v1/threads/{thread}/stop", "Stop its run", Answer::Accepted { or: None }),
        operation("post", "/api/v1/threads/{thread}/cancel", "End it for good", Answer::Accepted { or: None }),
        operation("post", "/api/v1/threads/{thread}/answer", "Answer a form", Answer::Accepted { or: None })
            .body(given!(AnswerRequest)),
        operation("post", "/api/v1/threads/{thread}/fork", "Fork it", Answer::Accepted { or: Some(of!(ForkLine<'_>)) })
            .body(given!(ForkBody)),
        operation("get", "/api/v1/batches", "Batches, newest first", json(of!(BatchList))),
        operation("get", "/api/v1/batches/{batch}", "A batch with its lines", json(of!(BatchView)))
            .query(asked!(LinesQuery)),
        operation("get", "/api/v1/usage", "What all threads used", json(of!(UsageReport))).query(asked!(UsageQuery)),
        operation("get", "/api/v1/events", "Events of all threads, live", Answer::Events(event)),
        operation("get", "/v1/models", "Workflows as models", json(of!(ModelList))),
        operation("get", "/v1/models/{model}", "A workflow as a model", json(of!(ModelView))),
        operation("post", "/v1/chat/completions", "Ask a workflow, as OpenAI's API does", json(of!(Completion)))
            .body(given!(ChatRequest)),
    ]
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

/// What makes the schemas of answers, and those of requests.
fn generators() -> [SchemaGenerator; 2] {
    let settings = SchemaSettings::draft2020_12().with(|of| {
        of.definitions_path = "/components/schemas".into();
        of.transforms.push(Box::new(alone));
    });
    [settings.clone().for_serialize(), settings.for_deserialize()].map(SchemaSettings::into_generator)
}

/// `GET /api/v1/openapi.json`
pub async fn document() -> Json<Value> {
    let [mut answers, mut requests] = generators();
    let problem = answers.subschema_for::<Problem>().to_value();
    let mut paths = Map::new();
    for operation in operations(&mut answers, &mut requests) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(path) = path.as_object_mut() {
            path.insert(operation.method.to_owned(), operation.object(&problem));
        }
    }
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
        let [mut answers, mut requests] = generators();
        assert!(operations(&mut answers, &mut requests).len() > 20);
        let answers = answers.take_definitions(true);
        for (name, schema) in requests.take_definitions(true) {
            assert!(answers.get(&name).is_none_or(|other| *other == schema), "{name}");
        }
    }
}
