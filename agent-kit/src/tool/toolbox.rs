//! The tools of the operator, and which of them a role is offered.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::{Code, nearest};
use rondo_protocol::object::ToolSpec;
use rondo_protocol::workflow::types::Validator;
use rondo_protocol::{Digest, Value, canonical};

use super::{Error, Tool};

/// The maximum length of a tool name at providers (<https://platform.openai.com/docs/api-reference/chat/create>).
const WIRE_NAME_MAX: usize = 64;
const ARGUMENTS_MAX_BYTES: usize = 4 << 20;

/// All tools of the operator.
#[derive(Clone, Default)]
pub struct ToolSet {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// Servers that cannot be used, with the reason.
    unusable: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there are two tools called {name}")]
pub struct Clash {
    pub name: String,
}

impl ToolSet {
    /// Adds a tool, unless its name, or its name on the wire, is taken: no tool replaces another.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), Clash> {
        let name = tool.spec().name.clone();
        let wire = wire_name(&name);
        if self.tools.keys().any(|taken| *taken == name || wire_name(taken) == wire) {
            return Err(Clash { name });
        }
        self.tools.insert(name, tool);
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name)
    }

    /// Records that a server cannot be used; the error on a missing tool of that server gives the reason.
    pub fn miss(&mut self, server: String, why: String) {
        self.unusable.insert(server, why);
    }

    fn lacks(&self, pattern: &str) -> String {
        if let Some(why) = pattern.split_once('.').and_then(|(server, _)| self.unusable.get(server)) {
            return format!("there is no tool {pattern:?}: {why}");
        }
        let near = nearest(pattern, self.tools.keys().map(String::as_str));
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!(
            "there is no tool {pattern:?}: it is not part of rondo, and neither [tool] nor [mcp] in rondo.toml has it{hint}"
        )
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn Tool>)> {
        self.tools.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    /// The tools that match `pattern` of a workflow: a name, or `server.*`.
    pub fn matching<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = &'a Arc<dyn Tool>> {
        self.tools.iter().filter(move |(name, _)| means(pattern, name)).map(|(_, tool)| tool)
    }
}

/// Whether `pattern` (a name, `server.*` or `*`) matches the tool `name`.
pub fn means(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) if prefix.is_empty() || prefix.ends_with('.') => name.starts_with(prefix),
        _ => pattern == name,
    }
}

/// The name of a tool on the wire, by which a model calls it: providers allow only letters, digits, `_` and `-`, so a
/// `.` becomes `__`. A name that is too long keeps its beginning and ends with a digest of the whole.
pub fn wire_name(name: &str) -> String {
    let spelled: String = name
        .chars()
        .map(|c| match c {
            '.' => "__".to_owned(),
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => c.to_string(),
            _ => "_".to_owned(),
        })
        .collect();
    if spelled.len() <= WIRE_NAME_MAX {
        return spelled;
    }
    let digest = Digest::sha256(name.as_bytes()).to_string();
    let (beginning, end) = (spelled.get(..WIRE_NAME_MAX - 9), digest.get(..8));
    format!("{}_{}", beginning.unwrap_or_default(), end.unwrap_or_default())
}

#[derive(Clone)]
pub struct Offer {
    pub tool: Arc<dyn Tool>,
    /// Why it may not be called, in words that name the missing grant; `None` = it may.
    pub denied: Option<String>,
    /// Validates its arguments; `None` when its schema does not compile, see [`unchecked`]. Compiled for the first call:
    /// most offers of a run are never called.
    schema: OnceLock<Option<Validator>>,
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("tool", self.tool.spec()).field("denied", &self.denied).finish_non_exhaustive()
    }
}

impl Offer {
    pub fn new(tool: Arc<dyn Tool>, denied: Option<String>) -> Self {
        Self { tool, denied, schema: OnceLock::new() }
    }

    pub fn read(&self, text: &str) -> Result<Value, Error> {
        let schema = self.schema.get_or_init(|| validator(&*self.tool).ok());
        read(text, schema.as_ref())
    }
}

/// Parses arguments. A blank text is an empty object, because models leave out empty arguments.
fn read(text: &str, schema: Option<&Validator>) -> Result<Value, Error> {
    let fault = |message: String| Error::new(Code::ToolArguments, message);
    if text.len() > ARGUMENTS_MAX_BYTES {
        return Err(fault(format!("the arguments are longer than {} MiB", ARGUMENTS_MAX_BYTES >> 20)));
    }
    let value: Value = if text.trim().is_empty() {
        Value::empty_object()
    } else {
        canonical::from_slice(text.as_bytes())
            .map_err(|error| fault(format!("the arguments are not valid JSON: {error}")))?
    };
    value.check_depth().map_err(|error| fault(format!("the arguments cannot be taken: {error}")))?;
    if !matches!(value, Value::Object(_)) {
        return Err(fault("the arguments are not a JSON object".to_owned()));
    }
    let violations = schema.map(|schema| schema.violations(&value)).unwrap_or_default();
    if violations.is_empty() {
        return Ok(value);
    }
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    Err(fault(format!("the arguments do not fit the tool's schema: {}", lines.join("; "))))
}

/// Why the arguments of a tool are not checked before a call: its schema does not compile here.
pub fn unchecked(tool: &dyn Tool) -> Option<String> {
    validator(tool).err()
}

fn validator(tool: &dyn Tool) -> Result<Validator, String> {
    let schema: Value = canonical::from_slice(tool.spec().parameters.as_bytes()).map_err(|error| error.to_string())?;
    Validator::of_schema(&schema).map_err(|error| error.to_string())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking {
    /// The pattern that the role names.
    pub pattern: String,
    /// Whether the tool does not exist or is not granted.
    pub code: Code,
    /// Why, and what to do.
    pub message: String,
}

#[derive(Debug, Clone, Default)]
pub struct Toolbox {
    /// By name on the wire.
    offers: BTreeMap<String, Offer>,
    lacking: Vec<Lacking>,
}

impl Toolbox {
    /// The tools of a role that names `patterns`. `denied` returns why a tool may not be called.
    pub fn new(patterns: &[String], tools: &ToolSet, denied: impl Fn(&dyn Tool) -> Option<String>) -> Self {
        let mut toolbox = Self::default();
        for pattern in patterns {
            let is_one = !pattern.ends_with('*');
            let (mut refused, mut offered) = (None, false);
            for tool in tools.matching(pattern) {
                let why = denied(&**tool);
                // Of several matches, the role gets those that are granted. A tool that it names individually is
                // reported if not.
                if why.is_some() && !is_one {
                    refused = refused.or(why);
                    continue;
                }
                offered = true;
                let wire = wire_name(&tool.spec().name);
                toolbox.offers.entry(wire).or_insert_with(|| Offer::new(Arc::clone(tool), why));
            }
            if !offered {
                let (code, message) = match refused {
                    Some(why) => (Code::ToolNotGranted, why),
                    None => (Code::ToolLacking, tools.lacks(pattern)),
                };
                toolbox.lacking.push(Lacking { pattern: pattern.clone(), code, message });
            }
        }
        toolbox
    }

    /// Everything that the role names and cannot use: missing, or not granted.
    pub fn missing(&self) -> Vec<Lacking> {
        let denied = self.offers.values().filter_map(|offer| {
            let message = offer.denied.clone()?;
            Some(Lacking { pattern: offer.tool.spec().name.clone(), code: Code::ToolNotGranted, message })
        });
        self.lacking.iter().cloned().chain(denied).collect()
    }

    /// The descriptions of the tools for a model, sorted by name.
    pub fn specs(&self) -> Vec<ToolSpec> {
        let spec = |(wire, offer): (&String, &Offer)| {
            let spec = offer.tool.spec();
            let (description, parameters) = (spec.description.clone(), spec.parameters.clone());
            ToolSpec { description, name: wire.clone(), parameters }
        };
        self.offers.iter().map(spec).collect()
    }

    pub fn offers(&self) -> impl Iterator<Item = (&str, &Offer)> {
        self.offers.iter().map(|(wire, offer)| (wire.as_str(), offer))
    }

    /// Finds the offer for a call by `name`: the name on the wire, or the workflow's.
    ///
    /// # Errors
    /// The outer error is a fault that ends the run: the role names the tool, but it is missing or not permitted. The
    /// inner one is for the caller: the role has no such tool.
    pub fn find(&self, name: &str) -> Result<Result<&Offer, Error>, Fault> {
        let offer = self.offers.get(name).or_else(|| self.offers.get(&wire_name(name)));
        if let Some(offer) = offer {
            return match &offer.denied {
                Some(why) => Err(Fault::new(Code::ToolNotGranted, FaultClass::Denied, why.clone())),
                None => Ok(Ok(offer)),
            };
        }
        let is_it = |lacking: &&Lacking| {
            means(&lacking.pattern, name)
                || means(&lacking.pattern.replace('.', "__"), name)
                || lacking.pattern.strip_suffix(".*").is_some_and(|server| name.starts_with(&format!("{server}__")))
        };
        if let Some(lacking) = self.lacking.iter().find(is_it) {
            return Err(Fault::new(lacking.code, FaultClass::Denied, lacking.message.clone()));
        }
        Ok(Err(self.unknown(name)))
    }

    fn unknown(&self, name: &str) -> Error {
        let name: String = name.chars().take(80).collect();
        let message = if self.offers.is_empty() {
            format!("there is no tool {name:?}; answer without tools")
        } else {
            let known = self.offers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            format!("there is no tool {name:?}; there are: {known}")
        };
        Error::new(Code::UnknownTool, message)
    }
}
