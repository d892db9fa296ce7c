//! `rondo.toml` and the user's `config.toml`: every table and key, read with its place. All faults are collected, in
//! source order; serde would stop at the first one and would not know which key was meant.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use rondo_agent_kit::model::openai::{KeepFor, KeepPrefix, ResponseFormat};
use rondo_protocol::Value;
use rondo_protocol::diagnostic::{Code, Diagnostic, Span, nearest, position};
use rondo_protocol::event::Durability;
use rondo_protocol::workflow::read_hook;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{
    Cwd, Grant, HookProgram, Imposed, Layer, Mcp, Origin, Price, Sandbox, SandboxSettings, Sourced, Tool, ToolSchema,
    parse_duration_ms,
};
use crate::grant::{Ceilings, Rule};

/// The name of a project's file.
pub const FILE_NAME: &str = "rondo.toml";

/// The name of the user's file, in `rondo/` of the folder for settings.
pub const USER_FILE_NAME: &str = "config.toml";

/// The key of a provider that says how it is asked to keep the prefix of a request.
pub const KEEP_PREFIX: &str = "prompt_cache";

/// The key of a provider that says for how long.
pub const KEEP_FOR: &str = "prompt_cache_retention";

/// The key for how a provider is asked to hold an answer to its form.
pub const RESPONSE_FORMAT: &str = "response_format";

/// What a file states. What it leaves out is `None` or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stated {
    /// `[store] path`
    pub store: Option<Sourced<String>>,
    /// `[store] durability`
    pub durability: Option<Sourced<Durability>>,
    /// `[provider.NAME]`
    pub providers: BTreeMap<String, StatedProvider>,
    /// `[model.NAME]`
    pub models: BTreeMap<String, super::Model>,
    /// `[mcp.NAME]`
    pub mcp: BTreeMap<String, Mcp>,
    /// `[tool.NAME]`
    pub tools: BTreeMap<String, Tool>,
    /// `[hook.NAME]`
    pub hooks: BTreeMap<String, HookProgram>,
    /// `[[impose]]`
    pub imposed: Vec<Imposed>,
    /// `[sandbox]`
    pub sandbox: SandboxSettings,
    /// `[grant]`
    pub grant: Grant,
    /// `[limits]`
    pub limits: Ceilings,
}

/// What a file states of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatedProvider {
    /// The line of its table's first key, from 1.
    pub line: u32,
    /// Its address.
    pub base_url: Option<Sourced<String>>,
    /// The variable that holds its key.
    pub key_env: Option<Sourced<String>>,
    /// The program that prints its key.
    pub key_command: Option<Sourced<Vec<String>>>,
    /// Milliseconds until a connection must stand.
    pub connect_timeout_ms: Option<Sourced<u64>>,
    /// Milliseconds that a reply may be silent.
    pub idle_timeout_ms: Option<Sourced<u64>>,
    /// Milliseconds for a call with all its retries.
    pub total_timeout_ms: Option<Sourced<u64>>,
    /// How it is asked to keep the prefix of a request.
    pub keep_prefix: Option<Sourced<KeepPrefix>>,
    /// For how long.
    pub keep_for: Option<Sourced<KeepFor>>,
    /// How it is asked to hold an answer to its form.
    pub response_format: Option<Sourced<ResponseFormat>>,
}

/// Reads the text of a settings file; `file` is its name in diagnostics.
///
/// # Errors
/// Every fault, in source order.
pub fn read(file: &str, text: &str, layer: Layer) -> Result<Stated, Vec<Diagnostic>> {
    let mut reader = Reader { file, text, layer, faults: Vec::new() };
    let root = match DeTable::parse(text) {
        Ok(root) => root,
        Err(error) => {
            let place = error.span().unwrap_or_default();
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            reader.fault(Code::SettingsSyntax, &place, message);
            return Err(reader.faults);
        }
    };
    let stated = reader.root(root.get_ref());
    if reader.faults.is_empty() {
        return Ok(stated);
    }
    reader.faults.sort_by_key(|fault| fault.span);
    Err(reader.faults)
}

impl Stated {
    /// The same with the files that it names as absolute paths: they lie beside it, in `folder`.
    #[must_use]
    pub fn placed(&self, folder: &Path) -> Self {
        let mut placed = self.clone();
        for tool in placed.tools.values_mut() {
            if let Some(ToolSchema::File(file)) = &mut tool.schema {
                *file = folder.join(&*file).to_string_lossy().into_owned();
            }
            if tool.cwd == Some(Cwd::Private) {
                place_words(&mut tool.argv, folder);
            }
        }
        for hook in placed.hooks.values_mut().filter(|hook| hook.cwd != Some(Cwd::Workspace)) {
            place_words(&mut hook.argv, folder);
        }
        for server in placed.mcp.values_mut().filter(|server| server.cwd != Some(Cwd::Workspace)) {
            let mut words: Vec<String> = server.command.iter().chain(&server.args).cloned().collect();
            place_words(&mut words, folder);
            let args = words.split_off(usize::from(server.command.is_some()).min(words.len()));
            (server.command, server.args) = (words.pop(), args);
        }
        placed
    }
}

/// Makes each word of a command that names a file beside the settings an absolute path: from a private folder it would not
/// be found. What is looked for in `PATH` stays so.
fn place_words(words: &mut [String], folder: &Path) {
    for (at, word) in words.iter_mut().enumerate() {
        let path = folder.join(&*word);
        if (at > 0 || word.contains('/')) && !word.starts_with('-') && path.is_file() {
            *word = path.to_string_lossy().into_owned();
        }
    }
}

type Table<'t> = DeTable<'t>;

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    layer: Layer,
    faults: Vec<Diagnostic>,
}

impl Reader<'_> {
    fn root(&mut self, root: &Table<'_>) -> Stated {
        const KEYS: [&str; 10] =
            ["store", "provider", "model", "mcp", "tool", "hook", "impose", "grant", "sandbox", "limits"];
        self.only(root, "at the top", &KEYS);
        let mut stated = Stated::default();
        if let Some(store) = self.table(root, "store") {
            self.only(store, "in [store]", &["path", "durability"]);
            stated.store = self.text(store, "path");
            stated.durability = self.durability(store);
        }
        stated.providers = self.tables(root, "provider", Self::provider);
        stated.models = self.tables(root, "model", Self::model);
        stated.mcp = self.tables(root, "mcp", Self::mcp);
        stated.tools = self.tables(root, "tool", Self::tool);
        stated.hooks = self.tables(root, "hook", Self::hook);
        stated.imposed = self.imposed(root);
        if let Some(sandbox) = self.table(root, "sandbox") {
            stated.sandbox = self.sandbox_settings(sandbox);
        }
        if let Some(grant) = self.table(root, "grant") {
            stated.grant = self.grant(grant);
        }
        if let Some(limits) = self.table(root, "limits") {
            stated.limits = self.limits(limits);
        }
        stated
    }

    fn durability(&mut self, store: &Table<'_>) -> Option<Sourced<Durability>> {
        let word = self.word(store, "durability", &["sync", "log"])?;
        let value = if word.value == "log" { Durability::Log } else { Durability::Sync };
        Some(Sourced { value, from: word.from })
    }

    fn provider(&mut self, table: &Table<'_>, at: &str) -> StatedProvider {
        const KEYS: [&str; 9] = [
            "base_url",
            "key_env",
            "key_command",
            "connect_timeout",
            "idle_timeout",
            "total_timeout",
            KEEP_PREFIX,
            KEEP_FOR,
            RESPONSE_FORMAT,
        ];
        self.only(table, at, &KEYS);
        if let (true, Some(second)) = (table.contains_key("key_env"), table.get("key_command")) {
            let message = format!("`key_env` and `key_command` both say where the key is, {at}");
            self.fault(Code::SettingsContradiction, &second.span(), message);
        }
        let keep_prefix = self.one_of(table, KEEP_PREFIX, &KeepPrefix::ALL, KeepPrefix::word);
        let keep_for = self.one_of(table, KEEP_FOR, &KeepFor::ALL, KeepFor::word);
        if let (Some(keep), Some(time)) = (&keep_prefix, &keep_for)
            && !keep.value.takes(time.value)
        {
            let place = table.get(KEEP_FOR).map_or(0..0, Spanned::span);
            let (keep, time) = (keep.value.word(), time.value.word());
            let message = format!("`{KEEP_FOR}`: {time:?} is not sent with `{KEEP_PREFIX} = {keep:?}`");
            let hint = "keys take in_memory and 24h, blocks take 5m and 1h".to_owned();
            self.fault_with_hint(Code::SettingsContradiction, &place, message, hint);
        }
        StatedProvider {
            line: self.first_line(table),
            base_url: self.checked(table, "base_url", super::resolve::address),
            key_env: self.variable(table, "key_env"),
            key_command: self.command(table, "key_command"),
            connect_timeout_ms: self.duration(table, "connect_timeout"),
            idle_timeout_ms: self.duration(table, "idle_timeout"),
            total_timeout_ms: self.duration(table, "total_timeout"),
            keep_prefix,
            keep_for,
            response_format: self.one_of(table, RESPONSE_FORMAT, &ResponseFormat::ALL, ResponseFormat::word),
        }
    }

    fn model(&mut self, table: &Table<'_>, at: &str) -> super::Model {
        self.only(table, at, &["provider", "model", "price"]);
        let price = self.table(table, "price").map(|price| self.price(price, &format!("in price of {at}")));
        super::Model { provider: self.text(table, "provider"), model: self.text(table, "model"), price }
    }

    fn price(&mut self, table: &Table<'_>, at: &str) -> Price {
        self.only(table, at, &["input", "cached_input", "cache_write", "output", "source", "date"]);
        let mut dollars = |key: &str| self.amount(table, key);
        let (input, kept, write, output) =
            (dollars("input"), dollars("cached_input"), dollars("cache_write"), dollars("output"));
        let price = Price {
            input: input.unwrap_or_default(),
            cached_input: kept.or(input).unwrap_or_default(),
            cache_write: write.or(input).unwrap_or_default(),
            output: output.unwrap_or_default(),
            source: self.plain_text(table, "source"),
            date: self.date(table),
        };
        for (key, given) in [("input", input), ("output", output)] {
            if given.is_none() && !table.contains_key(key) {
                let first = table.iter().next().map_or(0..0, |(key, _)| key.span());
                self.fault(Code::SettingsValue, &first, format!("a price needs `{key}`"));
            }
        }
        price
    }

    fn date(&mut self, table: &Table<'_>) -> Option<String> {
        match table.get("date")?.get_ref() {
            DeValue::Datetime(date) => Some(date.to_string()),
            _ => self.plain_text(table, "date"),
        }
    }

    fn mcp(&mut self, table: &Table<'_>, at: &str) -> Mcp {
        const KEYS: [&str; 9] =
            ["command", "args", "env", "cwd", "url", "key_env", "headers_env", "timeout", "sandbox"];
        self.only(table, at, &KEYS);
        let mcp = Mcp {
            line: self.first_line(table),
            command: self.plain_text(table, "command"),
            args: self.texts(table, "args"),
            env: self.named_texts(table, "env", Self::plain_text),
            headers_env: self.named_texts(table, "headers_env", |reader, headers, name| {
                reader.variable(headers, name).map(|variable| variable.value)
            }),
            cwd: self.cwd(table),
            sandbox: self.sandbox(table, at),
            url: self.checked(table, "url", super::resolve::address).map(|url| url.value),
            key_env: self.variable(table, "key_env").map(|name| name.value),
            timeout_ms: self.duration(table, "timeout").map(|timeout| timeout.value),
        };
        if table.contains_key("command") == table.contains_key("url") {
            let first = table.iter().next().map_or(0..0, |(key, _)| key.span());
            self.fault(Code::SettingsValue, &first, format!("either `command` or `url` is needed {at}"));
        }
        let (of_command, of_url) = (["args", "env", "cwd", "sandbox"], ["headers_env"]);
        let misplaced = if mcp.url.is_some() { &of_command[..] } else { &of_url[..] };
        for key in misplaced {
            if let Some(value) = table.get(*key) {
                let wanted = if mcp.url.is_some() { "command" } else { "url" };
                self.fault(Code::SettingsContradiction, &value.span(), format!("`{key}` goes with `{wanted}`, {at}"));
            }
        }
        mcp
    }

    fn cwd(&mut self, table: &Table<'_>) -> Option<Cwd> {
        let word = self.word(table, "cwd", &["workspace", "private"])?;
        Some(if word.value == "workspace" { Cwd::Workspace } else { Cwd::Private })
    }

    fn sandbox(&mut self, table: &Table<'_>, at: &str) -> Option<Sandbox> {
        let inner = self.table(table, "sandbox")?;
        self.only(inner, &format!("in sandbox of {at}"), &["read", "write", "hosts"]);
        Some(Sandbox {
            read: self.texts(inner, "read"),
            write: self.texts(inner, "write"),
            hosts: self.texts(inner, "hosts"),
        })
    }

    fn sandbox_settings(&mut self, table: &Table<'_>) -> SandboxSettings {
        self.only(table, "in [sandbox]", &["protected", "memory", "processes", "disk"]);
        let mut size = |key: &str| self.checked(table, key, size_bytes).map(|size| size.value);
        let (memory_bytes, disk_bytes) = (size("memory"), size("disk"));
        SandboxSettings {
            protected: table.contains_key("protected").then(|| self.texts(table, "protected")),
            memory_bytes,
            processes: self.count(table, "processes"),
            disk_bytes,
        }
    }

    /// Each `[[impose]]` as the JSON of a hook in a workflow file.
    fn imposed(&mut self, root: &Table<'_>) -> Vec<Imposed> {
        let Some(value) = root.get("impose") else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            self.wrong("impose", "a list of tables, each [[impose]]", value);
            return Vec::new();
        };
        let mut imposed = Vec::new();
        for item in items {
            let from = self.line(&item.span());
            let Some(stated @ Value::Object(_)) = json(item.get_ref()) else {
                self.wrong("impose", "a table with the keys of a hook", item);
                continue;
            };
            match read_hook(&stated) {
                Ok(hook) => imposed.push(Imposed { hook, stated, from }),
                Err(faults) => self.fault(Code::SettingsValue, &item.span(), format!("[[impose]]: {faults}")),
            }
        }
        imposed
    }

    /// The texts of an inner table, each read by `read`.
    fn named_texts(
        &mut self,
        table: &Table<'_>,
        key: &str,
        read: fn(&mut Self, &Table<'_>, &str) -> Option<String>,
    ) -> BTreeMap<String, String> {
        let Some(inner) = self.table(table, key) else { return BTreeMap::new() };
        keys(inner).into_iter().filter_map(|name| Some((name.clone(), read(self, inner, &name)?))).collect()
    }

    fn command(&mut self, table: &Table<'_>, key: &str) -> Option<Sourced<Vec<String>>> {
        let value = table.get(key)?;
        let words = self.texts(table, key);
        if words.is_empty() {
            self.wrong(key, "a program and its arguments", value);
            return None;
        }
        Some(Sourced { value: words, from: self.line(&value.span()) })
    }

    fn tool(&mut self, table: &Table<'_>, at: &str) -> Tool {
        self.only(table, at, &["argv", "schema", "effect", "paths", "cwd", "timeout", "output_max", "in_doubt"]);
        Tool {
            line: self.first_line(table),
            argv: self.argv(table, at),
            schema: self.schema(table),
            effect: self.word(table, "effect", &["pure", "reads", "writes", "external"]).map(|word| word.value),
            paths: self.texts(table, "paths"),
            cwd: self.cwd(table),
            timeout_ms: self.duration(table, "timeout").map(|timeout| timeout.value),
            output_max_bytes: self.checked(table, "output_max", size_bytes).map(|size| size.value),
            in_doubt: self.word(table, "in_doubt", &["retry", "ask", "skip"]).map(|word| word.value),
        }
    }

    /// A schema as a table, as JSON text, or the name of a file.
    fn schema(&mut self, table: &Table<'_>) -> Option<ToolSchema> {
        let value = table.get("schema")?;
        match value.get_ref() {
            DeValue::Table(_) => {
                let schema = json(value.get_ref());
                if schema.is_none() {
                    self.wrong("schema", "a JSON Schema, which holds no dates and no numbers without end", value);
                }
                schema.map(|schema| ToolSchema::Inline(schema.to_text()))
            }
            DeValue::String(text) if text.trim_start().starts_with('{') => Some(ToolSchema::Inline(text.to_string())),
            DeValue::String(text) => Some(ToolSchema::File(text.to_string())),
            _ => {
                self.wrong("schema", "a table, JSON text, or the name of a file", value);
                None
            }
        }
    }

    fn hook(&mut self, table: &Table<'_>, at: &str) -> HookProgram {
        self.only(table, at, &["argv", "cwd", "timeout", "on_error", "sandbox"]);
        HookProgram {
            line: self.first_line(table),
            argv: self.argv(table, at),
            cwd: self.cwd(table),
            sandbox: self.sandbox(table, at),
            timeout_ms: self.duration(table, "timeout").map(|timeout| timeout.value),
            on_error: self.word(table, "on_error", &["bypass", "fail"]).map(|word| word.value),
        }
    }

    fn argv(&mut self, table: &Table<'_>, at: &str) -> Vec<String> {
        let argv = self.texts(table, "argv");
        if argv.is_empty() {
            let place = table.iter().next().map_or(0..0, |(key, _)| key.span());
            self.fault(Code::SettingsValue, &place, format!("`argv`, the program and its arguments, is needed {at}"));
        }
        argv
    }

    fn grant(&mut self, table: &Table<'_>) -> Grant {
        self.only(table, "in [grant]", &["tools", "deny", "approve", "read", "write", "hosts", "sandbox"]);
        Grant {
            tools: table.contains_key("tools").then(|| self.patterns(table, "tools")),
            read: table.contains_key("read").then(|| self.texts(table, "read")),
            write: table.contains_key("write").then(|| self.texts(table, "write")),
            hosts: self.texts(table, "hosts"),
            deny: self.patterns(table, "deny"),
            approve: self.patterns(table, "approve"),
            sandbox: self.word(table, "sandbox", &["on", "off"]).map(|word| word.value == "on"),
        }
    }

    /// Rules. What means no tool would grant nothing, or ask for nothing, without a word.
    fn patterns(&mut self, table: &Table<'_>, key: &str) -> Vec<String> {
        let patterns = self.texts(table, key);
        for pattern in &patterns {
            if let Err(error) = pattern.parse::<Rule>() {
                let place = table.get(key).map_or(0..0, Spanned::span);
                self.fault(Code::SettingsValue, &place, format!("`{key}`: {error}"));
            }
        }
        patterns
    }

    fn limits(&mut self, table: &Table<'_>) -> Ceilings {
        const KEYS: [&str; 8] =
            ["steps", "visits", "model_calls", "tool_calls", "tokens", "cost_usd", "wall_time", "depth"];
        self.only(table, "in [limits]", &KEYS);
        Ceilings {
            steps: self.count(table, "steps"),
            visits: self.count(table, "visits"),
            model_calls: self.count(table, "model_calls"),
            tool_calls: self.count(table, "tool_calls"),
            tokens: self.count(table, "tokens"),
            cost_usd: self.amount(table, "cost_usd"),
            wall_time_ms: self.duration(table, "wall_time").map(|time| time.value),
            depth: self.count(table, "depth"),
        }
    }

    /// Reports every key that is not one of `known`.
    fn only(&mut self, table: &Table<'_>, at: &str, known: &[&str]) {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if known.contains(&name) {
                continue;
            }
            let hint = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", known.join(", ")),
            };
            let message = format!("unknown key `{}` {at}", excerpt(name));
            self.fault_with_hint(Code::SettingsKey, &key.span(), message, hint);
        }
    }

    /// The tables of a table, each read by `read`.
    fn tables<T>(
        &mut self,
        root: &Table<'_>,
        key: &str,
        read: fn(&mut Self, &Table<'_>, &str) -> T,
    ) -> BTreeMap<String, T> {
        let mut all = BTreeMap::new();
        if let Some(outer) = self.table(root, key) {
            for name in keys(outer) {
                if let Some(inner) = self.table(outer, &name) {
                    let value = read(self, inner, &format!("in [{key}.{}]", excerpt(&name)));
                    all.insert(name, value);
                }
            }
        }
        all
    }

    fn table<'t, 'i>(&mut self, table: &'t Table<'i>, key: &str) -> Option<&'t Table<'i>> {
        let value = table.get(key)?;
        let inner = value.get_ref().as_table();
        if inner.is_none() {
            self.wrong(key, "a table", value);
        }
        inner
    }

    fn checked<T>(
        &mut self,
        table: &Table<'_>,
        key: &str,
        check: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Sourced<T>> {
        let text = self.text(table, key)?;
        match check(&text.value) {
            Ok(value) => Some(Sourced { value, from: text.from }),
            Err(message) => {
                let place = table.get(key).map_or(0..0, Spanned::span);
                self.fault(Code::SettingsValue, &place, format!("`{key}`: {message}"));
                None
            }
        }
    }

    fn duration(&mut self, table: &Table<'_>, key: &str) -> Option<Sourced<u64>> {
        self.checked(table, key, parse_duration_ms)
    }

    fn variable(&mut self, table: &Table<'_>, key: &str) -> Option<Sourced<String>> {
        self.checked(table, key, |name| {
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            // A key that was pasted here by mistake must not be shown.
            is_name
                .then(|| name.to_owned())
                .ok_or_else(|| "write the name of an environment variable, not a key".to_owned())
        })
    }

    fn word(&mut self, table: &Table<'_>, key: &str, words: &[&str]) -> Option<Sourced<String>> {
        self.checked(table, key, |word| {
            let known = words.contains(&word);
            known.then(|| word.to_owned()).ok_or_else(|| format!("expected one of {}", words.join(", ")))
        })
    }

    /// A word that stands for one of `values`.
    fn one_of<T: Copy>(
        &mut self,
        table: &Table<'_>,
        key: &str,
        values: &[T],
        word_of: fn(T) -> &'static str,
    ) -> Option<Sourced<T>> {
        let words: Vec<&str> = values.iter().copied().map(word_of).collect();
        let word = self.word(table, key, &words)?;
        let value = values.iter().copied().find(|value| word_of(*value) == word.value)?;
        Some(Sourced { value, from: word.from })
    }

    fn plain_text(&mut self, table: &Table<'_>, key: &str) -> Option<String> {
        self.text(table, key).map(|text| text.value)
    }

    fn text(&mut self, table: &Table<'_>, key: &str) -> Option<Sourced<String>> {
        let value = table.get(key)?;
        let Some(text) = value.get_ref().as_str() else {
            self.wrong(key, "a text", value);
            return None;
        };
        Some(Sourced { value: text.to_owned(), from: self.line(&value.span()) })
    }

    fn texts(&mut self, table: &Table<'_>, key: &str) -> Vec<String> {
        let Some(value) = table.get(key) else { return Vec::new() };
        let texts = value.get_ref().as_array().and_then(|items| {
            items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        texts.unwrap_or_else(|| {
            self.wrong(key, "a list of texts", value);
            Vec::new()
        })
    }

    fn count(&mut self, table: &Table<'_>, key: &str) -> Option<u64> {
        let value = table.get(key)?;
        let number = value.get_ref().as_integer().and_then(|integer| {
            u64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|number| *number > 0)
        });
        if number.is_none() {
            self.wrong(key, "an integer above 0", value);
        }
        number
    }

    fn amount(&mut self, table: &Table<'_>, key: &str) -> Option<f64> {
        let value = table.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(integer) => integer.as_str().parse::<f64>().ok(),
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            _ => None,
        };
        let number = number.filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            self.wrong(key, "a number of US dollars, 0 or more", value);
        }
        number
    }

    fn wrong(&mut self, key: &str, wanted: &str, value: &Spanned<DeValue<'_>>) {
        self.fault(Code::SettingsValue, &value.span(), format!("`{}` must be {wanted}", excerpt(key)));
    }

    fn first_line(&self, table: &Table<'_>) -> u32 {
        table.iter().map(|(key, _)| position(self.text, key.span().start).0).min().unwrap_or(1)
    }

    fn line(&self, place: &Range<usize>) -> Origin {
        self.layer.line(position(self.text, place.start).0)
    }

    fn fault(&mut self, code: Code, place: &Range<usize>, message: impl Into<String>) {
        let span = Span::new(place.start, place.len());
        self.faults.push(Diagnostic::at(code, self.file, self.text, span, message));
    }

    fn fault_with_hint(&mut self, code: Code, place: &Range<usize>, message: String, hint: String) {
        let span = Span::new(place.start, place.len());
        self.faults.push(Diagnostic::at(code, self.file, self.text, span, message).with_hint(hint));
    }
}

fn keys(table: &Table<'_>) -> Vec<String> {
    table.iter().map(|(key, _)| key.get_ref().to_string()).collect()
}

fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Bytes of a size such as `32KiB` or `8MiB`.
fn size_bytes(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or_default();
    let unit_bytes = match unit {
        "B" => Some(1),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes = number.parse::<u64>().ok().zip(unit_bytes).and_then(|(number, unit)| number.checked_mul(unit));
    bytes.ok_or_else(|| "expected a size such as 32KiB or 8MiB".to_owned())
}

/// A value as JSON; `None` for what JSON does not have.
fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(integer) => Value::Int(i128::from_str_radix(integer.as_str(), integer.radix()).ok()?),
        DeValue::Float(float) => Value::number(float.as_str().parse().ok()?).ok()?,
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(_) => return None,
        DeValue::Array(items) => Value::List(items.iter().map(|item| json(item.get_ref())).collect::<Option<_>>()?),
        DeValue::Table(members) => {
            let member = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                Some((key.to_string(), json(value.get_ref())?))
            };
            Value::Object(members.iter().map(member).collect::<Option<_>>()?)
        }
    })
}
