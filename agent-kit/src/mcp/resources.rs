//! Resources as tools, where a server offers them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, Resource};
use rmcp::service::{Peer, ServiceError};
use rondo_protocol::Value;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;

use super::catalogue::MAX_PAGES;
use super::outcome::{self, Lines};
use super::server::Shared;
use crate::redact::Redactor;
use crate::tool::{Error, Invocation, Origin, Spec, Tool, bound};

/// The name of the tool that lists resources, unless the server has one.
pub const LIST: &str = "list_resources";
/// The name of the tool that reads one, unless the server has one.
pub const READ: &str = "read_resource";

/// The most resources that are listed.
const MAX_RESOURCES: usize = 1000;

fn spec(server: &str, name: &str, description: &str, parameters: &str) -> Spec {
    Spec {
        name: format!("{server}.{name}"),
        description: description.to_owned(),
        parameters: parameters.to_owned(),
        origin: Origin::Mcp { server: server.to_owned() },
    }
}

/// Lists the resources of a server.
pub struct ListResources {
    spec: Spec,
    shared: Arc<Shared>,
}

impl ListResources {
    /// For this server.
    pub fn new(shared: Arc<Shared>) -> Self {
        let description = format!("Lists what {} offers to read, one a line: address, type, name.", shared.name());
        let spec = spec(shared.name(), LIST, &description, r#"{"properties":{},"type":"object"}"#);
        Self { spec, shared }
    }

    async fn list(&self, invocation: &Invocation) -> Result<String, Error> {
        let connection = self.shared.connection().await?;
        self.shared.wait(&connection, pages(connection.peer(), &invocation.redactor)).await
    }
}

/// Every resource, through the pages of their list.
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

impl Tool for ListResources {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _arguments: &Value) -> Effect {
        Effect::External
    }

    fn run<'a>(&'a self, _arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(self.list(invocation))
    }
}

/// Reads a resource of a server.
pub struct ReadResource {
    spec: Spec,
    shared: Arc<Shared>,
}

impl ReadResource {
    /// For this server.
    pub fn new(shared: Arc<Shared>) -> Self {
        let server = shared.name();
        let description = format!("Reads what {server} offers under an address that `{server}.{LIST}` lists.");
        let parameters = r#"{"additionalProperties":false,"properties":{"uri":{"description":"The address.","type":"string"}},"required":["uri"],"type":"object"}"#;
        let spec = spec(server, READ, &description, parameters);
        Self { spec, shared }
    }

    async fn read(&self, uri: &str, invocation: &Invocation) -> Result<String, Error> {
        let connection = self.shared.connection().await?;
        let mut params = ReadResourceRequestParams::new(uri);
        params.meta = Some(Shared::meta(invocation));
        let asked = connection.peer().read_resource_once(params);
        match self.shared.wait(&connection, asked).await? {
            ReadResourceResponse::Complete(result) => Ok(outcome::of_resource(&result, &invocation.redactor)),
            _ => Err(self.shared.asks_back()),
        }
    }
}

impl Tool for ReadResource {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn effect(&self, _arguments: &Value) -> Effect {
        Effect::External
    }

    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(async move {
            let uri = arguments.get("uri").and_then(Value::as_str);
            let uri = uri.ok_or_else(|| Error::new(Code::ToolArguments, "`uri` is missing; it must be a text"))?;
            self.read(uri, invocation).await
        })
    }
}
