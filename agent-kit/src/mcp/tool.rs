//! A server's tools and resources as tools of a role.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, JsonObject, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, Resource,
};
use rmcp::service::{Peer, ServiceError};
use rondo_protocol::Value;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;

use super::catalogue::MAX_PAGES;
use super::connection::Connection;
use super::outcome::{self, Lines};
use super::pins::Pin;
use super::server::Shared;
use crate::bound;
use crate::redact::Redactor;
use crate::tool::{Content, Error, Invocation, Origin, Spec, Tool};

/// The tool that lists resources, unless the server has a tool of this name.
pub const LIST_RESOURCES: &str = "list_resources";
/// The tool that reads a resource, unless the server has a tool of this name.
pub const READ_RESOURCE: &str = "read_resource";

const MAX_RESOURCES: usize = 1000;

pub struct McpTool {
    spec: Spec,
    request: Request,
    shared: Arc<Shared>,
}

enum Request {
    /// Calls the tool with the server's own name for it.
    CallTool(String),
    ListResources,
    ReadResource,
}

impl McpTool {
    pub fn pinned(name: &str, pin: &Pin, shared: &Arc<Shared>) -> Self {
        let (description, parameters) = (pin.description.clone(), &pin.parameters);
        Self::new(name, description, parameters, Request::CallTool(name.to_owned()), shared)
    }

    pub fn list_resources(shared: &Arc<Shared>) -> Self {
        let description = format!("Lists what {} offers to read, one a line: address, type, name.", shared.name());
        let parameters = r#"{"properties":{},"type":"object"}"#;
        Self::new(LIST_RESOURCES, description, parameters, Request::ListResources, shared)
    }

    pub fn read_resource(shared: &Arc<Shared>) -> Self {
        let (server, list) = (shared.name(), LIST_RESOURCES);
        let description = format!("Reads what {server} offers under an address that `{server}.{list}` lists.");
        let parameters = r#"{"additionalProperties":false,"properties":{"uri":{"description":"The address.","type":"string"}},"required":["uri"],"type":"object"}"#;
        Self::new(READ_RESOURCE, description, parameters, Request::ReadResource, shared)
    }

    fn new(name: &str, description: String, parameters: &str, request: Request, shared: &Arc<Shared>) -> Self {
        let spec = Spec {
            name: format!("{}.{name}", shared.name()),
            description,
            parameters: parameters.to_owned(),
            origin: Origin::Mcp { server: shared.name().to_owned() },
        };
        Self { spec, request, shared: Arc::clone(shared) }
    }

    async fn call(&self, name: &str, arguments: JsonObject, invocation: &Invocation) -> Result<Content, Error> {
        let check = |connection: &Connection| match connection.change_of(name) {
            Some(change) => {
                let message = format!("the tool {} is not what was agreed to: it {change}", self.spec.name);
                Err(Error::new(Code::McpChanged, message))
            }
            None => Ok(()),
        };
        let call = |connection: Arc<Connection>| {
            let mut params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments.clone());
            params.meta = Some(Shared::meta(invocation));
            async move { connection.peer().call_tool_once(params).await }
        };
        match self.shared.ask(check, call).await? {
            CallToolResponse::Complete(result) => {
                let has_failed = result.is_error == Some(true);
                let content = outcome::of_call(result, &invocation.redactor);
                if has_failed {
                    let message = format!("{} says that it failed", self.spec.name);
                    return Err(Error::new(Code::McpToolFailed, message).with_output(content.text));
                }
                Ok(content)
            }
            _ => Err(self.shared.asks_back()),
        }
    }

    async fn read(&self, uri: &str, invocation: &Invocation) -> Result<Content, Error> {
        let read = |connection: Arc<Connection>| {
            let mut params = ReadResourceRequestParams::new(uri);
            params.meta = Some(Shared::meta(invocation));
            async move { connection.peer().read_resource_once(params).await }
        };
        match self.shared.ask(|_| Ok(()), read).await? {
            ReadResourceResponse::Complete(result) => Ok(outcome::of_resource(&result, &invocation.redactor)),
            _ => Err(self.shared.asks_back()),
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    // A server's statement about its effects is not trusted.
    fn effect(&self, _arguments: &Value) -> Effect {
        Effect::External
    }

    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<Content, Error>> {
        let fault = |message: String| Error::new(Code::ToolArguments, message);
        Box::pin(async move {
            match &self.request {
                Request::CallTool(name) => {
                    let arguments = serde_json::from_str(&arguments.to_text())
                        .map_err(|error| fault(format!("the arguments cannot be sent: {error}")))?;
                    self.call(name, arguments, invocation).await
                }
                Request::ListResources => {
                    let redactor = &invocation.redactor;
                    let list = |connection: Arc<Connection>| async move { pages(connection.peer(), redactor).await };
                    self.shared.ask(|_| Ok(()), list).await.map(Content::from)
                }
                Request::ReadResource => {
                    let uri = arguments.get("uri").and_then(Value::as_str);
                    let uri = uri.ok_or_else(|| fault("`uri` is missing; it must be a text".to_owned()))?;
                    self.read(uri, invocation).await
                }
            }
        })
    }
}

/// The list of a server's resources, one a line.
async fn pages(peer: &Peer<RoleClient>, redactor: &Redactor) -> Result<String, ServiceError> {
    let mut lines = Lines::new(redactor);
    let (mut listed, mut cursor) = (0, None);
    for _ in 0..MAX_PAGES {
        let page = peer.list_resources(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
        for resource in page.resources.iter().take(MAX_RESOURCES - listed) {
            lines.add(&line(resource, redactor));
            listed += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() || listed == MAX_RESOURCES {
            break;
        }
    }
    if cursor.is_some() || listed == MAX_RESOURCES {
        lines.add(&format!("[cut here: {listed} are listed, there may be more]"));
    } else if listed == 0 {
        lines.add("[there are none]");
    }
    Ok(lines.finish())
}

fn line(resource: &Resource, redactor: &Redactor) -> String {
    let shown = |text: &str, max_chars| bound::line(&redactor.text(text), max_chars);
    let kind = resource.mime_type.as_deref().unwrap_or("-");
    format!("{} {} {}", shown(&resource.uri, 500), shown(kind, 100), shown(&resource.name, 200))
}
