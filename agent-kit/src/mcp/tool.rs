//! A tool of a server.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::model::{CallToolRequestParams, CallToolResponse, JsonObject};
use rondo_protocol::Value;
use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;

use super::outcome;
use super::pins::Pin;
use super::server::Shared;
use crate::tool::{Error, Invocation, Origin, Spec, Tool};

/// A tool that a server offers.
pub struct McpTool {
    spec: Spec,
    /// The server's name for it.
    name: String,
    shared: Arc<Shared>,
}

impl McpTool {
    /// The tool `name` as it was pinned.
    pub fn new(name: &str, pin: &Pin, shared: Arc<Shared>) -> Self {
        let spec = Spec {
            name: format!("{}.{name}", shared.name()),
            description: pin.description.clone(),
            parameters: pin.parameters.clone(),
            origin: Origin::Mcp { server: shared.name().to_owned() },
        };
        Self { spec, name: name.to_owned(), shared }
    }

    async fn call(&self, arguments: &Value, invocation: &Invocation) -> Result<String, Error> {
        let arguments: JsonObject = serde_json::from_str(&arguments.to_text())
            .map_err(|error| Error::new(Code::ToolArguments, format!("the arguments cannot be sent: {error}")))?;
        let connection = self.shared.connection().await?;
        if let Some(change) = connection.change_of(&self.name) {
            let message = format!("the tool {} is not what was agreed to: it {change}", self.spec.name);
            return Err(Error::new(Code::McpChanged, message));
        }
        let mut params = CallToolRequestParams::new(self.name.clone()).with_arguments(arguments);
        params.meta = Some(Shared::meta(invocation));
        let asked = connection.peer().call_tool_once(params);
        match self.shared.wait(&connection, asked).await? {
            CallToolResponse::Complete(result) => {
                let has_failed = result.is_error == Some(true);
                let text = outcome::of_call(result, &invocation.redactor);
                if has_failed {
                    let message = format!("{} says that it failed", self.spec.name);
                    return Err(Error::new(Code::McpToolFailed, message).with_output(text));
                }
                Ok(text)
            }
            _ => Err(self.shared.asks_back()),
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    // What a server says of its own effects is a claim.
    fn effect(&self, _arguments: &Value) -> Effect {
        Effect::External
    }

    fn run<'a>(&'a self, arguments: Value, invocation: &'a Invocation) -> BoxFuture<'a, Result<String, Error>> {
        Box::pin(async move { self.call(&arguments, invocation).await })
    }
}
