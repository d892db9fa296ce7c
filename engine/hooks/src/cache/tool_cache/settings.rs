//! What an author may set, and what the run's flag says.

use std::collections::BTreeMap;

use rondo_agent_kit::tool::Origin;
use rondo_core::hook::{BuildContext, ToolView};
use rondo_protocol::Value;

use super::deny_list;
use crate::cache::settings;

/// What is held in memory at most. Much: a quick tool's result saves little more than reading it from the store costs.
const MEMORY_BYTES: u64 = 32 << 20;
/// How long a result may be given again where the author sets nothing.
const TTL_MS: u64 = 60_000;
/// The suffix of a server's name that means all its tools.
const ANY: &str = ".*";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It is given in a tool's place.
    Serve,
    /// It is counted what would have been given.
    Observe,
    /// What would have been given is compared with what the tool says.
    Verify,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub common: settings::Settings,
    pub mode: Mode,
    /// How long a result may be given again; `None` = for ever.
    pub ttl_ms: Option<u64>,
    /// The same for single tools, or all of a server.
    pub per_tool: BTreeMap<String, Option<u64>>,
    /// The only tools whose results are kept, where the author names some.
    pub tools: Option<Vec<String>>,
    /// What the author adds to the fixed list.
    pub exclude: Vec<String>,
}

impl Settings {
    pub fn read(build: &BuildContext<'_>) -> Result<Self, String> {
        let settings = &build.hook.settings;
        let modes = [("serve", Mode::Serve), ("observe", Mode::Observe), ("verify", Mode::Verify)];
        let read = Self {
            common: settings::Settings::read(build, MEMORY_BYTES)?,
            mode: settings::word(settings, "mode", modes)?.unwrap_or(Mode::Serve),
            ttl_ms: settings.get("ttl").map_or(Ok(Some(TTL_MS)), |ttl| duration("ttl", ttl))?,
            per_tool: per_tool(settings)?,
            tools: settings.get("tools").map(|tools| texts("tools", tools)).transpose()?,
            exclude: settings.get("exclude").map(|names| texts("exclude", names)).transpose()?.unwrap_or_default(),
        };
        let named = read.tools.iter().flatten().map(|name| ("tools", name));
        let named = named.chain(read.per_tool.keys().map(|name| ("per_tool", name)));
        match named.into_iter().find(|(_, name)| deny_list::is_denied(name)) {
            Some((setting, name)) => Err(format!(
                "`{setting}` names `{name}`, whose results are never kept: it is on the fixed list of tools that act or \
                 fetch, and nothing takes a tool off that list"
            )),
            None => Ok(read),
        }
    }

    pub fn ttl_ms(&self, tool: &ToolView) -> Option<u64> {
        let of_server = || self.per_tool.iter().find(|(name, _)| names(name, tool)).map(|(_, ttl_ms)| ttl_ms);
        self.per_tool.get(&tool.name).or_else(of_server).copied().unwrap_or(self.ttl_ms)
    }

    /// Whether the author excludes results of a tool. In doubt it is excluded: a name means that tool of any server.
    pub fn excludes(&self, tool: &ToolView) -> bool {
        let is_of = |server: &str| tool.name.strip_prefix(server).is_some_and(|rest| rest.starts_with('.'));
        self.exclude.iter().any(|listed| {
            deny_list::means(listed, &tool.name) || names(listed, tool) || listed.strip_suffix(ANY).is_some_and(is_of)
        })
    }

    /// Whether the author leaves a tool in, where only some are named.
    pub fn lists(&self, tool: &ToolView) -> bool {
        self.tools.as_ref().is_none_or(|listed| listed.iter().any(|listed| names(listed, tool)))
    }

    /// Whether the author names a tool, or all of its server.
    pub fn names(&self, tool: &ToolView) -> bool {
        self.tools.iter().flatten().chain(self.per_tool.keys()).any(|listed| names(listed, tool))
    }
}

/// Whether a listed name is that of a tool, or that of its server with `.*`. Whose a tool is says its origin alone.
fn names(listed: &str, tool: &ToolView) -> bool {
    let is_of_server = |name: &str| matches!(&tool.origin, Origin::Mcp { server } if server == name);
    listed == tool.name || listed.strip_suffix(ANY).is_some_and(is_of_server)
}

/// A duration in milliseconds; `None` = for ever.
fn duration(name: &str, value: &Value) -> Result<Option<u64>, String> {
    match value {
        Value::Null | Value::Int(0) => Ok(None),
        Value::Int(number) => u64::try_from(*number).map(Some).map_err(|_| format!("`{name}` is out of range")),
        _ => Err(format!("`{name}` is not a duration")),
    }
}

fn per_tool(settings: &BTreeMap<String, Value>) -> Result<BTreeMap<String, Option<u64>>, String> {
    match settings.get("per_tool") {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Object(tools)) => {
            let read = |(name, ttl): (&String, &Value)| Ok((name.clone(), duration(&format!("per_tool.{name}"), ttl)?));
            tools.iter().map(read).collect()
        }
        Some(_) => Err("`per_tool` is not a map from tools to durations".to_owned()),
    }
}

fn texts(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let Value::List(items) = value else { return Err(format!("`{name}` is not a list")) };
    let text =
        |item: &Value| item.as_str().map(str::to_owned).ok_or_else(|| format!("`{name}` holds no names of tools"));
    items.iter().map(text).collect()
}
