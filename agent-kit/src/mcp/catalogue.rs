//! Lists a server's tools and resources, within bounds.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::{ClientRequest, CustomResult, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use rmcp::service::ServiceError;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::{Value, text};

use super::connection::Connection;
use super::pins::Pin;
use crate::bound;
use crate::tool::{Error, wire_name};

/// Represents a server's resources among the pins; no tool can have this name.
const RESOURCES: &str = "(resources)";

/// The maximum number of tools of a server. A model gets lost in far fewer.
const MAX_TOOLS: usize = 512;
pub const MAX_PAGES: usize = 64;
/// The maximum bytes of all names, descriptions and schemas.
const MAX_BYTES: usize = 8 << 20;
const MAX_SCHEMA_BYTES: usize = 64 << 10;
const MAX_DESCRIPTION_BYTES: usize = 8 << 10;
/// The maximum length of a name (<https://modelcontextprotocol.io/specification/2025-11-25/server/tools>).
const MAX_NAME_BYTES: usize = 128;

#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// Every offered tool, by the server's name for it, and the existence of resources, which become tools too.
    pub pins: BTreeMap<String, Pin>,
    /// The other tools: each with its name, as far as it can be shown, and why.
    pub left_out: Vec<String>,
}

impl Catalogue {
    pub fn has_resources(&self) -> bool {
        self.pins.contains_key(RESOURCES)
    }

    pub fn tools(&self) -> impl Iterator<Item = (&String, &Pin)> {
        self.pins.iter().filter(|(name, _)| *name != RESOURCES)
    }

    /// Asks a server for its tools.
    ///
    /// # Errors
    /// When the list is endless or invalid.
    pub async fn ask(server: &str, connection: &Connection) -> Result<Self, Error> {
        let capabilities = connection.peer().peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
        let mut catalogue = Self::default();
        if capabilities.resources.is_some() {
            let words = "The server offers resources, which can be listed and read.";
            let pin = Pin::new(RESOURCES, words, "{}", words.to_owned(), "{}".to_owned());
            catalogue.pins.insert(RESOURCES.to_owned(), pin);
        }
        if capabilities.tools.is_none() {
            return Ok(catalogue);
        }
        let fault = |why: String| {
            Error::new(Code::McpList, format!("the tools of the MCP server {server} cannot be used: {why}"))
        };
        let mut wire_names = BTreeSet::new();
        let (mut bytes, mut listed) = (0, 0);
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = match Page::ask(connection, cursor).await {
                Ok(page) => page,
                Err(error) => return Err(connection.fault(&error).await),
            };
            listed += page.tools.len();
            if listed > MAX_TOOLS {
                return Err(fault(format!("there are more than {MAX_TOOLS}")));
            }
            for tool in page.tools {
                let tool = match tool {
                    Ok(tool) => tool,
                    Err(why) => {
                        catalogue.left_out.push(why);
                        continue;
                    }
                };
                let name = tool.name.to_string();
                // Two tools with one name for the model are as bad as two tools with one name.
                if !wire_names.insert(wire_name(&name)) {
                    return Err(fault(format!("there are two that would be called {}", bound::line(&name, 80))));
                }
                bytes += tool.name.len() + tool.description.as_ref().map_or(0, |description| description.len());
                match pin(tool) {
                    Ok(pin) => {
                        bytes += pin.parameters.len();
                        catalogue.pins.insert(name, pin);
                    }
                    Err(why) => catalogue.left_out.push(format!("{}: {why}", bound::line(&name, 80))),
                }
            }
            if bytes > MAX_BYTES {
                return Err(fault(format!("they are described in more than {}", bound::bytes(MAX_BYTES as u64))));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(catalogue);
            }
        }
        Err(fault(format!("their list has more than {MAX_PAGES} pages")))
    }
}

/// A page of a server's list of tools.
struct Page {
    /// Each tool, or its name and why it cannot be read.
    tools: Vec<Result<Tool, String>>,
    next_cursor: Option<String>,
}

impl Page {
    async fn ask(connection: &Connection, cursor: Option<String>) -> Result<Self, ServiceError> {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        match connection.peer().list_tools(Some(params.clone())).await {
            Ok(page) => {
                let tools = page.tools.into_iter().map(Ok).collect();
                return Ok(Self { tools, next_cursor: page.next_cursor });
            }
            Err(ServiceError::UnexpectedResponse) => {}
            Err(error) => return Err(error),
        }
        // One tool that is none spoils the page, which is asked for again and read tool by tool.
        let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let ServerResult::CustomResult(CustomResult(mut page)) = connection.peer().send_request(request).await? else {
            return Err(ServiceError::UnexpectedResponse);
        };
        let Some(serde_json::Value::Array(tools)) = page.get_mut("tools").map(serde_json::Value::take) else {
            return Err(ServiceError::UnexpectedResponse);
        };
        let next_cursor = page.get("nextCursor").and_then(serde_json::Value::as_str).map(str::to_owned);
        Ok(Self { tools: tools.into_iter().map(read).collect(), next_cursor })
    }
}

fn read(tool: serde_json::Value) -> Result<Tool, String> {
    let name = bound::line(tool.get("name").and_then(serde_json::Value::as_str).unwrap_or_default(), 80);
    let why = |error: serde_json::Error| format!("{name}: it cannot be read: {}", bound::line(&error.to_string(), 200));
    serde_json::from_value(tool).map_err(why)
}

/// Pins a tool, or returns why it is left out.
fn pin(tool: Tool) -> Result<Pin, String> {
    let name = tool.name.as_ref();
    if !is_tool_name(name) {
        return Err("its name must be 1 to 128 letters, digits, `_`, `-`, `.` or `/`".to_owned());
    }
    let given = Value::from_serialize(&*tool.input_schema);
    let given = given.map_err(|error| format!("its schema cannot be kept: {error}"))?;
    let parameters = fitted(cleaned(given.clone())?).to_text();
    let given = given.to_text();
    if given.len() > MAX_SCHEMA_BYTES {
        return Err(format!("its schema is longer than {}", bound::bytes(MAX_SCHEMA_BYTES as u64)));
    }
    let words = tool.description.unwrap_or_default();
    let shown = bound::cut(text::plain(&words).into_owned(), MAX_DESCRIPTION_BYTES);
    Ok(Pin::new(name, &words, &given, shown, parameters))
}

pub fn is_tool_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_plain)
}

/// Makes a schema of arguments fit for every provider: an object that says its properties, without a union at its top, and
/// without the name of its dialect. What it says less is for the server to check.
fn fitted(schema: Value) -> Value {
    let Value::Object(mut members) = schema else { return schema };
    members.remove("$schema");
    let unions = ["anyOf", "oneOf", "allOf"].into_iter();
    let unions: Vec<_> = unions.filter_map(|key| Some((key, members.remove(key)?))).collect();
    let mut properties = match members.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => BTreeMap::new(),
    };
    for (key, union) in unions {
        let Value::List(branches) = union else { continue };
        // What the branches say of a name: one of it holds, or of `allOf` all.
        let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for branch in branches {
            if let Value::Object(mut branch) = branch
                && let Some(Value::Object(of_branch)) = branch.remove("properties")
            {
                for (name, property) in of_branch {
                    let said = told.entry(name).or_default();
                    if !said.contains(&property) {
                        said.push(property);
                    }
                }
            }
        }
        for (name, mut said) in told {
            let word = if key == "allOf" { "allOf" } else { "anyOf" };
            properties.entry(name).or_insert_with(|| match said.len() {
                1 => said.remove(0),
                _ => Value::Object(BTreeMap::from([(word.to_owned(), Value::List(said))])),
            });
        }
    }
    members.insert("type".to_owned(), Value::from("object"));
    members.insert("properties".to_owned(), Value::Object(properties));
    Value::Object(members)
}

/// Cleans a schema for a model: its texts contain only characters that a person can see.
///
/// # Errors
/// A name in it has other characters.
pub fn cleaned(schema: Value) -> Result<Value, String> {
    Ok(match schema {
        Value::Str(words) => Value::Str(text::plain(&words).into_owned()),
        Value::List(items) => Value::List(items.into_iter().map(cleaned).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            // The server would not recognize a renamed parameter.
            if let Some(key) = members.keys().find(|key| !text::is_plain(key)) {
                let key = bound::line(key, 80);
                return Err(format!("a name in its schema, {key:?}, has characters that are not seen"));
            }
            let members = members.into_iter().map(|(key, value)| Ok((key, cleaned(value)?)));
            Value::Object(members.collect::<Result<_, String>>()?)
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use rondo_protocol::canonical;

    use super::*;

    #[test]
    fn a_schema_of_arguments_is_an_object_that_says_its_properties() {
        for (schema, wanted) in [
            (r#"{"type":"object"}"#, r#"{"properties":{},"type":"object"}"#),
            ("{}", r#"{"properties":{},"type":"object"}"#),
            (
                r#"{"$schema":"x","additionalProperties":false,"type":"object"}"#,
                r#"{"additionalProperties":false,"properties":{},"type":"object"}"#,
            ),
            (
                r#"{"anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{}}}],"properties":{"a":{}}}"#,
                r#"{"properties":{"a":{},"b":{}},"type":"object"}"#,
            ),
            (
                r#"{"oneOf":[{"properties":{"kind":{"const":"a"}}},{"properties":{"kind":{"const":"b"}}}]}"#,
                r#"{"properties":{"kind":{"anyOf":[{"const":"a"},{"const":"b"}]}},"type":"object"}"#,
            ),
        ] {
            let schema = canonical::parse(schema.as_bytes()).unwrap();
            assert_eq!(fitted(schema).to_text(), wanted);
        }
    }
}
