//! Reads a script from YAML or JSON and reports every fault with its position.

use std::collections::BTreeMap;

use rondo_protocol::Value;
use rondo_protocol::diagnostic::{Code, Diagnostic, Span, nearest};
use rondo_protocol::id::RoleName;
use rondo_protocol::source::{self, Key, Kind, Node, Source};

use super::key::without_index;
use super::{Attempt, Cause, Failure, List, MAX_DELAY_MS, Said, Script, ToolRequest};

pub(super) const ENTRY_KEYS: [&str; 8] = ["status", "fields", "body", "raw", "tools", "then", "error", "delay_ms"];
const TOOL_KEYS: [&str; 2] = ["name", "args"];
pub(super) const ERROR_KEYS: [&str; 7] = ["http", "network", "cut", "timeout", "code", "message", "retry_after"];

/// The maximum `retry_after` in seconds: a day.
const MAX_RETRY_AFTER_S: u64 = 86_400;

impl Script {
    /// Reads a script: JSON when the file's name ends in `.json`, else YAML.
    ///
    /// # Errors
    /// All faults of its shape, in source order. [`Script::check`] checks whether the roles exist.
    pub fn read(file: &Source) -> Result<Self, Vec<Diagnostic>> {
        let is_json = file.name().rsplit_once('.').is_some_and(|(_, end)| end.eq_ignore_ascii_case("json"));
        let reading = if is_json { source::read_json(file.text()) } else { source::read_yaml(file.text()) };
        let mut faults: Vec<Diagnostic> = reading.faults.into_iter().map(|fault| file.report(fault)).collect();
        let script = reading.root.map_or(Ok(Self::default()), |root| Self::of_node(file, &root));
        match script {
            Ok(script) if faults.is_empty() => return Ok(script),
            Ok(_) => {}
            Err(mut more) => faults.append(&mut more),
        }
        faults.sort_by_key(|fault| fault.span);
        Err(faults)
    }

    /// Reads a script that is part of another file: `root` is the node of `file` that holds it.
    pub fn of_node(file: &Source, root: &Node) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = Reader { file, faults: Vec::new() };
        let script = reader.script(root);
        if reader.faults.is_empty() {
            return Ok(script);
        }
        reader.faults.sort_by_key(|fault| fault.span);
        Err(reader.faults)
    }
}

struct Reader<'a> {
    file: &'a Source,
    faults: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn fault(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.faults.push(self.file.diagnostic(code, span, message));
    }

    fn shape(&mut self, span: Span, message: impl Into<String>) {
        self.fault(Code::ScriptShape, span, message);
    }

    /// Reports a node of another shape, which has no value.
    fn misshapen<T>(&mut self, span: Span, message: impl Into<String>) -> Option<T> {
        self.shape(span, message);
        None
    }

    fn unknown(&mut self, key: &Key, known: &[&str]) {
        let fault =
            self.file.diagnostic(Code::ScriptKey, key.span, format!("the key `{}` is not known here", key.name));
        let hint = match nearest(&key.name, known.iter().copied()) {
            Some(near) => format!("write `{near}`"),
            None => format!("the keys are {}", known.join(", ")),
        };
        self.faults.push(fault.with_hint(hint));
    }

    fn script(&mut self, root: &Node) -> Script {
        let mut lists = BTreeMap::new();
        let Kind::Map(members) = &root.kind else {
            self.shape(root.place(Span::default()), "a script is a map from roles to lists of entries");
            return Script::default();
        };
        for (key, node) in members {
            let is_name = |part: &str| RoleName::new(without_index(part).unwrap_or(part)).is_ok();
            if !key.name.split('/').all(is_name) {
                let message = format!(
                    "`{}` is not a role, `role[index]`, `other[index]/role[index]` or `workflow_role/role`",
                    key.name
                );
                self.fault(Code::ScriptRole, key.span, message);
                continue;
            }
            let mut list = List { place: key.span, attempts: Vec::new() };
            match &node.kind {
                Kind::List(entries) => {
                    for entry in entries {
                        self.entry(entry, entry.place(key.span), &mut list.attempts);
                    }
                }
                _ => self.shape(key.span, format!("`{}` needs a list of entries", key.name)),
            }
            lists.insert(key.name.clone(), list);
        }
        Script { lists }
    }

    fn entry(&mut self, node: &Node, place: Span, attempts: &mut Vec<Attempt>) {
        let Kind::Map(members) = &node.kind else {
            return self.shape(place, "an entry is a map with `status`, `raw`, `tools` or `error`");
        };
        let before = self.faults.len();
        let (mut status, mut fields, mut body, mut raw) = (None, None, None, None);
        let (mut tools, mut then, mut error, mut delay_ms) = (None, None, None, 0);
        for (key, node) in members {
            match key.name.as_str() {
                "status" => status = self.string(key, node),
                "fields" => fields = self.fields(key, node),
                "body" => body = self.string(key, node),
                "raw" => raw = self.string(key, node),
                "tools" => tools = self.tools(key, node),
                "then" => then = Some((key, node)),
                "error" => error = self.failure(key, node),
                "delay_ms" => delay_ms = self.integer(key, node, 0, MAX_DELAY_MS).unwrap_or(0),
                _ => self.unknown(key, &ENTRY_KEYS),
            }
        }
        if self.faults.len() > before {
            return;
        }
        let place = members.first().map_or(place, |(key, _)| key.span);
        let is_structured = status.is_some() || fields.is_some() || body.is_some();
        if then.is_some() && tools.is_none() {
            return self.shape(place, "`then` stands beside `tools`");
        }
        let said = match (is_structured, raw, tools, error) {
            // An empty entry is the answer of a role with one status and no fields.
            (_, None, None, None) => Said::Structured {
                status,
                fields: fields.unwrap_or_else(Value::empty_object),
                body: body.unwrap_or_default(),
            },
            (false, Some(raw), None, None) => Said::Raw(raw),
            (false, None, Some(tools), None) => Said::Tools(tools),
            (false, None, None, Some(error)) => Said::Error(error),
            _ => {
                return self
                    .shape(place, "an entry has only one of `status` with its fields, `raw`, `tools` and `error`");
            }
        };
        attempts.push(Attempt { delay_ms, said, place });
        if let Some((key, node)) = then {
            self.entry(node, node.place(key.span), attempts);
        }
    }

    fn string(&mut self, key: &Key, node: &Node) -> Option<String> {
        match &node.kind {
            Kind::Str(text) => Some(text.clone()),
            _ => self.misshapen(node.place(key.span), format!("`{}` must be a text", key.name)),
        }
    }

    fn integer(&mut self, key: &Key, node: &Node, least: u64, most: u64) -> Option<u64> {
        let number = match node.kind {
            Kind::Int(number) => u64::try_from(number).ok().filter(|number| (least..=most).contains(number)),
            _ => None,
        };
        let message = || format!("`{}` must be an integer from {least} to {most}", key.name);
        number.or_else(|| self.misshapen(node.place(key.span), message()))
    }

    fn fields(&mut self, key: &Key, node: &Node) -> Option<Value> {
        match &node.kind {
            Kind::Map(_) => Some(node.to_value()),
            _ => self.misshapen(node.place(key.span), "`fields` must be a map"),
        }
    }

    fn tools(&mut self, key: &Key, node: &Node) -> Option<Vec<ToolRequest>> {
        match &node.kind {
            Kind::List(items) if !items.is_empty() => {
                Some(items.iter().filter_map(|item| self.tool(item, item.place(key.span))).collect())
            }
            _ => self.misshapen(node.place(key.span), "`tools` must be a list with at least one tool"),
        }
    }

    fn tool(&mut self, node: &Node, place: Span) -> Option<ToolRequest> {
        let Kind::Map(members) = &node.kind else {
            return self.misshapen(place, "a tool is a map with `name` and `args`");
        };
        let mut name = None;
        let mut arguments = "{}".to_owned();
        for (key, node) in members {
            match (key.name.as_str(), &node.kind) {
                ("name", _) => name = self.string(key, node),
                // A text is used as it is, so that a script can play a model that writes broken JSON.
                ("args", Kind::Str(text)) => arguments.clone_from(text),
                ("args", _) => arguments = node.to_value().to_text(),
                _ => self.unknown(key, &TOOL_KEYS),
            }
        }
        match name {
            Some(name) => Some(ToolRequest { name, arguments }),
            None => self.misshapen(place, "the tool has no `name`"),
        }
    }

    fn failure(&mut self, key: &Key, node: &Node) -> Option<Failure> {
        let place = node.place(key.span);
        let Kind::Map(members) = &node.kind else {
            return self.misshapen(place, "`error` is a map such as `{ http: 500 }`");
        };
        let before = self.faults.len();
        let mut causes = Vec::new();
        let (mut message, mut retry_after_ms) = (None, None);
        for (key, node) in members {
            match (key.name.as_str(), &node.kind) {
                ("http", _) => {
                    let status = self.integer(key, node, 400, 599);
                    causes.extend(status.and_then(|status| u16::try_from(status).ok()).map(Cause::Http));
                }
                ("network", Kind::Bool(true)) => causes.push(Cause::Network),
                ("cut", Kind::Bool(true)) => causes.push(Cause::Cut),
                ("timeout", Kind::Bool(true)) => causes.push(Cause::Timeout),
                ("network" | "cut" | "timeout", _) => {
                    self.shape(node.place(key.span), format!("`{}` can only be true", key.name));
                }
                ("code", Kind::Str(code)) if Code::find(code).is_some() => causes.push(Cause::Code(code.clone())),
                ("code", _) => self.shape(node.place(key.span), "`code` must be a code of rondo, such as `RN1108`"),
                ("message", _) => message = self.string(key, node),
                ("retry_after", _) => {
                    let seconds = self.integer(key, node, 0, MAX_RETRY_AFTER_S);
                    retry_after_ms = seconds.map(|seconds| seconds * 1000);
                }
                _ => self.unknown(key, &ERROR_KEYS),
            }
        }
        match causes.as_slice() {
            [cause] => Some(Failure { cause: cause.clone(), message, retry_after_ms }),
            // The fault was already reported.
            _ if self.faults.len() > before => None,
            _ => self.misshapen(place, "an error has one of `http`, `network`, `cut`, `timeout` and `code`"),
        }
    }
}
