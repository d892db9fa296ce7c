//! Reads `rondo.toml` and the user's `config.toml`: every table and key, with its line. All faults are collected, in
//! source order; serde would stop at the first one and would not know the key.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use rondo_agent_kit::model::protocol::{self, Protocol};
use rondo_agent_kit::model::{CacheRetention, PromptCache, ResponseFormat};
use rondo_agent_kit::tool::{EffectWord, InDoubt};
use rondo_core::grant::{Ceilings, Rule};
use rondo_core::models;
use rondo_protocol::Value;
use rondo_protocol::diagnostic::{Code, Diagnostic, Span, did_you_mean};
use rondo_protocol::event::Durability;
use rondo_protocol::workflow::read::size_bytes;
use rondo_protocol::workflow::{OnHookError, read_hook};
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeString, DeTable, DeValue};

use super::resolve::address;
use super::{
    Cwd, Grant, HookProgram, Imposed, Layer, Mcp, Price, Sandbox, SandboxSettings, Sourced, Tool, ToolSchema, keys,
    parse_duration_ms,
};

pub const FILE_NAME: &str = "rondo.toml";

/// The name of the user's file, in `rondo/` of the settings folder.
pub const USER_FILE_NAME: &str = "config.toml";

pub const PROMPT_CACHE: &str = "prompt_cache";

pub const PROMPT_CACHE_RETENTION: &str = "prompt_cache_retention";

pub const RESPONSE_FORMAT: &str = "response_format";

/// The contents of a file. Absent values are `None` or empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stated {
    pub store: Option<Sourced<String>>,
    pub durability: Option<Sourced<Durability>>,
    pub providers: BTreeMap<String, StatedProvider>,
    pub models: BTreeMap<String, super::Model>,
    pub mcp: BTreeMap<String, Mcp>,
    pub tools: BTreeMap<String, Tool>,
    pub hooks: BTreeMap<String, HookProgram>,
    pub imposed: Vec<Imposed>,
    pub sandbox: SandboxSettings,
    pub grant: Grant,
    pub limits: Ceilings,
    pub files: FileSettings,
}

/// What a file says of files; [`FileRules`](rondo_core::local::FileRules) says what each means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSettings {
    pub max_bytes: Option<u64>,
    pub media_types: Option<Vec<String>>,
}

/// What a file says of a provider; [`Provider`](super::Provider) says what each means.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatedProvider {
    pub line: u32,
    pub asked: Value,
    pub protocol: Option<Sourced<&'static dyn Protocol>>,
    pub base_url: Option<Sourced<String>>,
    pub key_env: Option<Sourced<String>>,
    pub key_command: Option<Sourced<Vec<String>>>,
    pub connect_timeout_ms: Option<Sourced<u64>>,
    pub idle_timeout_ms: Option<Sourced<u64>>,
    pub total_timeout_ms: Option<Sourced<u64>>,
    pub prompt_cache: Option<Sourced<PromptCache>>,
    pub prompt_cache_retention: Option<Sourced<CacheRetention>>,
    pub response_format: Option<Sourced<ResponseFormat>>,
    pub headers: BTreeMap<String, String>,
    pub headers_env: BTreeMap<String, String>,
    pub query: BTreeMap<String, String>,
}

/// Reads the text of a settings file; `file` is its name in diagnostics.
pub fn read(file: &str, text: &str, layer: Layer) -> Result<Stated, Vec<Diagnostic>> {
    let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let file = File { name: file, text, newlines, layer, faults: RefCell::default() };
    let stated = match DeTable::parse(text) {
        Ok(root) => file.section(root.get_ref(), String::new(), Section::root),
        Err(error) => {
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            file.fault(Code::SettingsSyntax, &error.span().unwrap_or_default(), message);
            Stated::default()
        }
    };
    let mut faults = file.faults.into_inner();
    faults.sort_by_key(|fault| fault.span);
    if faults.is_empty() { Ok(stated) } else { Err(faults) }
}

impl Stated {
    /// Returns a copy with absolute paths for the files that it names, which are relative to `folder`.
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
            let mut words = server.words();
            place_words(&mut words, folder);
            let args = words.split_off(usize::from(server.command.is_some()).min(words.len()));
            (server.command, server.args) = (words.pop(), args);
        }
        placed
    }
}

/// Makes each word of a command that names a file beside the settings an absolute path: a program in a private folder
/// would not find it. Names that are looked up in `PATH` stay unchanged.
fn place_words(words: &mut [String], folder: &Path) {
    for (at, word) in words.iter_mut().enumerate() {
        let path = folder.join(&*word);
        if (at > 0 || word.contains('/')) && !word.starts_with('-') && path.is_file() {
            *word = path.to_string_lossy().into_owned();
        }
    }
}

const MAX_FAULTS: usize = 100;

const EFFECTS: [(&str, EffectWord); 4] = [
    ("pure", EffectWord::Pure),
    ("reads", EffectWord::Reads),
    ("writes", EffectWord::Writes),
    ("external", EffectWord::External),
];

type Table<'t> = DeTable<'t>;
type Item<'t> = Spanned<DeValue<'t>>;

struct File<'a> {
    name: &'a str,
    text: &'a str,
    newlines: Vec<usize>,
    layer: Layer,
    faults: RefCell<Vec<Diagnostic>>,
}

impl<'a> File<'a> {
    /// Reads a table, and reports every key that `read` does not use. `name` is empty at the top of the file.
    fn section<T>(&'a self, table: &'a Table<'a>, name: String, read: impl FnOnce(&Section<'a>) -> T) -> T {
        let section = Section { file: self, table, name, known: RefCell::default() };
        let value = read(&section);
        section.report_unknown_keys();
        value
    }

    fn line(&self, span: &Range<usize>) -> u32 {
        let before = self.newlines.partition_point(|newline| *newline < span.start);
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    fn fault(&self, code: Code, span: &Range<usize>, message: impl Into<String>) {
        self.fault_with_hint(code, span, message, None);
    }

    fn fault_with_hint(&self, code: Code, span: &Range<usize>, message: impl Into<String>, hint: Option<String>) {
        let mut faults = self.faults.borrow_mut();
        // Each is placed by reading the file from its beginning.
        if faults.len() < MAX_FAULTS {
            let fault = Diagnostic::at(code, self.name, self.text, Span::new(span.start, span.len()), message);
            faults.push(hint.into_iter().fold(fault, Diagnostic::with_hint));
        }
    }

    fn wrong(&self, key: &str, wanted: &str, item: &Item<'_>) {
        self.fault(Code::SettingsValue, &item.span(), format!("`{}` must be {wanted}", excerpt(key)));
    }

    fn as_table(&self, key: &str, item: &'a Item<'a>) -> Option<&'a Table<'a>> {
        let table = item.get_ref().as_table();
        if table.is_none() {
            self.wrong(key, "a table", item);
        }
        table
    }

    fn as_checked<T>(&self, key: &str, item: &Item<'_>, check: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let Some(text) = item.get_ref().as_str() else {
            self.wrong(key, "a text", item);
            return None;
        };
        let value = check(text);
        value.map_err(|what| self.fault(Code::SettingsValue, &item.span(), format!("`{key}`: {what}"))).ok()
    }
}

struct Section<'a> {
    file: &'a File<'a>,
    table: &'a Table<'a>,
    name: String,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    fn root(&self) -> Stated {
        let store = |section: &Self| {
            let durabilities = [("sync", Durability::Sync), ("log", Durability::Log)];
            let path = section.sourced("path", Section::text);
            (path, section.sourced("durability", |section, key| section.one_of(key, &durabilities)))
        };
        let (store, durability) = self.inner("store", store).unwrap_or_default();
        Stated {
            store,
            durability,
            providers: self.tables("provider", Section::provider),
            models: self.tables("model", Section::model),
            mcp: self.tables("mcp", Section::mcp),
            tools: self.tables("tool", Section::tool),
            hooks: self.tables("hook", Section::hook),
            imposed: self.imposed(),
            grant: self.inner("grant", Section::grant).unwrap_or_default(),
            sandbox: self.inner("sandbox", Section::sandbox_settings).unwrap_or_default(),
            limits: self.inner("limits", Section::limits).unwrap_or_default(),
            files: self.inner("files", Section::files).unwrap_or_default(),
        }
    }

    fn files(&self) -> FileSettings {
        FileSettings { max_bytes: self.size("max_size"), media_types: self.optional_texts("media_types") }
    }

    fn provider(&self) -> StatedProvider {
        let provider = StatedProvider {
            line: self.first_line(),
            asked: self.asked(),
            protocol: self.sourced("protocol", |section, key| {
                section.one_of(key, &protocol::ALL.iter().map(|known| (known.name(), *known)).collect::<Vec<_>>())
            }),
            base_url: self.sourced("base_url", |section, key| section.checked(key, address)),
            key_env: self.sourced("key_env", |section, key| section.checked(key, variable_name)),
            key_command: self.sourced("key_command", Section::command),
            connect_timeout_ms: self.sourced("connect_timeout", Section::duration),
            idle_timeout_ms: self.sourced("idle_timeout", Section::duration),
            total_timeout_ms: self.sourced("total_timeout", Section::duration),
            prompt_cache: self.sourced(PROMPT_CACHE, |section, key| {
                section.one_of(key, &PromptCache::ALL.map(|keep| (keep.word(), keep)))
            }),
            prompt_cache_retention: self.sourced(PROMPT_CACHE_RETENTION, |section, key| {
                section.one_of(key, &CacheRetention::ALL.map(|time| (time.word(), time)))
            }),
            response_format: self.sourced(RESPONSE_FORMAT, |section, key| {
                section.one_of(key, &ResponseFormat::ALL.map(|format| (format.word(), format)))
            }),
            headers: self.named_texts("headers", |text| Ok(text.to_owned())),
            headers_env: self.named_texts("headers_env", variable_name),
            query: self.named_texts("query", |text| Ok(text.to_owned())),
        };
        if let (true, Some(second)) = (self.has("key_env"), self.table.get("key_command")) {
            let message = format!("`key_env` and `key_command` both say where the key is, in {}", self.name);
            self.file.fault(Code::SettingsContradiction, &second.span(), message);
        }
        if let (Some(keep), Some(time)) = (&provider.prompt_cache, &provider.prompt_cache_retention)
            && !keep.value.takes(time.value)
        {
            let (keep, time) = (keep.value.word(), time.value.word());
            let message = format!("`{PROMPT_CACHE_RETENTION}`: {time:?} is not sent with `{PROMPT_CACHE} = {keep:?}`");
            let hint = "keys take in_memory and 24h, blocks take 5m and 1h".to_owned();
            let span = self.span(PROMPT_CACHE_RETENTION);
            self.file.fault_with_hint(Code::SettingsContradiction, &span, message, Some(hint));
        }
        provider
    }

    fn model(&self) -> super::Model {
        super::Model {
            provider: self.sourced("provider", Section::text),
            model: self.sourced("model", Section::text),
            price: self.inner("price", Section::price),
        }
    }

    fn price(&self) -> Price {
        let (input, output) = (self.dollars("input"), self.dollars("output"));
        let (cached, write) = (self.dollars("cached_input"), self.dollars("cache_write"));
        for (key, given) in [("input", input), ("output", output)] {
            if given.is_none() && !self.has(key) {
                self.file.fault(Code::SettingsValue, &self.first_key(), format!("a price needs `{key}`"));
            }
        }
        let long_write = self.dollars("cache_write_long");
        Price {
            dollars: models::Price {
                input: input.unwrap_or_default(),
                cached_input: cached.or(input).unwrap_or_default(),
                cache_write: write.or(input).unwrap_or_default(),
                cache_write_long: long_write.or(write).or(input).unwrap_or_default(),
                output: output.unwrap_or_default(),
                long_prompt: self.inner("long_prompt", Section::long_prompt).flatten(),
            },
            source: self.text("source"),
            date: match self.get("date").map(Spanned::get_ref) {
                Some(DeValue::Datetime(date)) => Some(date.to_string()),
                _ => self.text("date"),
            },
            is_claim: false,
        }
    }

    fn long_prompt(&self) -> Option<models::LongPrompt> {
        let above = self.converted("above", "a number of tokens", |value| value.as_integer()?.as_str().parse().ok());
        let (input_times, output_times) = (self.dollars("input_times"), self.dollars("output_times"));
        for key in ["above", "input_times", "output_times"].iter().filter(|key| !self.has(key)) {
            self.file.fault(Code::SettingsValue, &self.first_key(), format!("a long prompt needs `{key}`"));
        }
        Some(models::LongPrompt { above: above?, input_times: input_times?, output_times: output_times? })
    }

    fn mcp(&self) -> Mcp {
        let mut mcp = Mcp {
            line: self.first_line(),
            asked: self.asked(),
            command: self.text("command"),
            args: self.texts("args"),
            env: self.named_texts("env", |text| Ok(text.to_owned())),
            cwd: self.cwd(),
            url: self.checked("url", address),
            key_env: self.checked("key_env", variable_name),
            headers_env: self.named_texts("headers_env", variable_name),
            timeout_ms: self.duration("timeout"),
            sandbox: self.sandbox(),
        };
        if let (None, Value::Object(asked)) = (&mcp.sandbox, &mut mcp.asked) {
            asked.insert("sandbox".to_owned(), "none".into());
        }
        if self.has("command") == self.has("url") {
            let message = format!("either `command` or `url` is needed in {}", self.name);
            self.file.fault(Code::SettingsValue, &self.first_key(), message);
        }
        let (misplaced, wanted) = match &mcp.url {
            Some(_) => (&["args", "env", "cwd", "sandbox"][..], "command"),
            None => (&["headers_env"][..], "url"),
        };
        for (key, item) in misplaced.iter().filter_map(|key| Some((key, self.table.get(*key)?))) {
            let message = format!("`{key}` goes with `{wanted}`, in {}", self.name);
            self.file.fault(Code::SettingsContradiction, &item.span(), message);
        }
        mcp
    }

    fn cwd(&self) -> Option<Cwd> {
        self.one_of("cwd", &[("workspace", Cwd::Workspace), ("private", Cwd::Private)])
    }

    fn sandbox(&self) -> Option<Sandbox> {
        self.inner("sandbox", |sandbox| Sandbox {
            read: sandbox.texts("read"),
            write: sandbox.texts("write"),
            hosts: sandbox.texts("hosts"),
        })
    }

    fn sandbox_settings(&self) -> SandboxSettings {
        SandboxSettings {
            protected: self.optional_texts("protected"),
            memory_bytes: self.size("memory"),
            processes: self.count("processes"),
            disk_bytes: self.size("disk"),
        }
    }

    /// Each `[[impose]]` as the JSON of a hook in a workflow file.
    fn imposed(&self) -> Vec<Imposed> {
        let items = self.converted("impose", "a list of tables, each [[impose]]", DeValue::as_array);
        let mut imposed = Vec::new();
        for item in items.into_iter().flatten() {
            let Some(stated @ Value::Object(_)) = json(item.get_ref()) else {
                self.file.wrong("impose", "a table with the keys of a hook", item);
                continue;
            };
            let from = self.file.layer.line(self.file.line(&item.span()));
            match read_hook(&stated) {
                Ok(hook) => imposed.push(Imposed { hook, stated, from }),
                Err(faults) => self.file.fault(Code::SettingsValue, &item.span(), format!("[[impose]]: {faults}")),
            }
        }
        imposed
    }

    fn tool(&self) -> Tool {
        Tool {
            line: self.first_line(),
            asked: self.asked(),
            argv: self.argv(),
            schema: self.schema(),
            effect: self.one_of("effect", &EFFECTS),
            paths: self.texts("paths"),
            cwd: self.cwd(),
            timeout_ms: self.duration("timeout"),
            output_max_bytes: self.size("output_max"),
            in_doubt: self
                .one_of("in_doubt", &[("retry", InDoubt::Retry), ("ask", InDoubt::Ask), ("skip", InDoubt::Skip)]),
        }
    }

    fn schema(&self) -> Option<ToolSchema> {
        let is_table = self.get("schema")?.get_ref().is_table();
        let wanted = if is_table {
            "a JSON Schema, which holds no dates and no numbers without end"
        } else {
            "a table, JSON text, or the name of a file"
        };
        self.converted("schema", wanted, |value| match value {
            DeValue::String(text) if text.trim_start().starts_with('{') => Some(ToolSchema::Inline(text.to_string())),
            DeValue::String(text) => Some(ToolSchema::File(text.to_string())),
            value => json(value).filter(|_| is_table).map(|schema| ToolSchema::Inline(schema.to_text())),
        })
    }

    fn hook(&self) -> HookProgram {
        HookProgram {
            line: self.first_line(),
            asked: self.asked(),
            argv: self.argv(),
            cwd: self.cwd(),
            timeout_ms: self.duration("timeout"),
            on_error: self.one_of("on_error", &[("bypass", OnHookError::Bypass), ("fail", OnHookError::Fail)]),
            sandbox: self.sandbox(),
        }
    }

    fn argv(&self) -> Vec<String> {
        let argv = self.texts("argv");
        if argv.is_empty() {
            let message = format!("`argv`, the program and its arguments, is needed in {}", self.name);
            self.file.fault(Code::SettingsValue, &self.first_key(), message);
        }
        argv
    }

    fn command(&self, key: &'static str) -> Option<Vec<String>> {
        let value = self.get(key)?;
        let words = Some(self.texts(key)).filter(|words| !words.is_empty());
        if words.is_none() {
            self.file.wrong(key, "a program and its arguments", value);
        }
        words
    }

    fn grant(&self) -> Grant {
        Grant {
            tools: self.has("tools").then(|| self.rules("tools")),
            deny: self.rules("deny"),
            approve: self.rules("approve"),
            read: self.optional_texts("read"),
            write: self.optional_texts("write"),
            hosts: self.texts("hosts"),
            sandbox: self.one_of("sandbox", &[("on", true), ("off", false)]),
        }
    }

    /// A list of rules. A rule that matches no tool is a fault, because it would silently grant nothing, or ask for
    /// nothing.
    fn rules(&self, key: &'static str) -> Vec<String> {
        let rules = self.texts(key);
        for error in rules.iter().filter_map(|rule| rule.parse::<Rule>().err()) {
            self.file.fault(Code::SettingsValue, &self.span(key), format!("`{key}`: {error}"));
        }
        rules
    }

    fn limits(&self) -> Ceilings {
        Ceilings {
            steps: self.count("steps"),
            visits: self.count("visits"),
            model_calls: self.count("model_calls"),
            tool_calls: self.count("tool_calls"),
            tokens: self.count("tokens"),
            cost_usd: self.dollars("cost_usd"),
            wall_time_ms: self.duration("wall_time"),
            depth: self.count("depth"),
        }
    }

    fn report_unknown_keys(&self) {
        let known = self.known.borrow();
        let unknown = self.table.iter().map(|(key, _)| (key, key.get_ref().as_ref()));
        for (key, name) in unknown.filter(|(_, name)| !known.contains(name)) {
            let hint = did_you_mean(name, known.iter().copied())
                .unwrap_or_else(|| format!("known here: {}", known.join(", ")));
            let at = if self.name.is_empty() { "at the top".to_owned() } else { format!("in {}", self.name) };
            let message = format!("unknown key `{}` {at}", excerpt(name));
            self.file.fault_with_hint(Code::SettingsKey, &key.span(), message, Some(hint));
        }
    }

    fn get(&self, key: &'static str) -> Option<&'a Item<'a>> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table.get(key)
    }

    fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    /// What the table asks of a person: each of its keys.
    fn asked(&self) -> Value {
        let key = |(key, item): (&Spanned<DeString<'_>>, &Item<'_>)| {
            let key = key.get_ref().to_string();
            let value = asked(&key, json(item.get_ref())?)?;
            Some((key, value))
        };
        self.table.iter().filter_map(key).collect()
    }

    fn span(&self, key: &'static str) -> Range<usize> {
        self.get(key).map_or(0..0, Spanned::span)
    }

    fn first_key(&self) -> Range<usize> {
        self.table.iter().next().map_or(0..0, |(key, _)| key.span())
    }

    fn first_line(&self) -> u32 {
        self.table.iter().map(|(key, _)| self.file.line(&key.span())).min().unwrap_or(1)
    }

    fn sourced<T>(&self, key: &'static str, read: impl FnOnce(&Self, &'static str) -> Option<T>) -> Option<Sourced<T>> {
        let value = read(self, key)?;
        Some(Sourced { value, from: self.file.layer.line(self.file.line(&self.span(key))) })
    }

    fn tables<T>(&self, key: &'static str, read: impl Fn(&Section<'a>) -> T) -> BTreeMap<String, T> {
        let outer = self.get(key).and_then(|item| self.file.as_table(key, item));
        let inner = |(name, item): (&Spanned<DeString<'_>>, &'a Item<'a>)| {
            let name = name.get_ref().to_string();
            let table = self.file.as_table(&name, item)?;
            let section = format!("[{key}.{}]", excerpt(&name));
            Some((name, self.file.section(table, section, &read)))
        };
        outer.into_iter().flatten().filter_map(inner).collect()
    }

    fn inner<T>(&self, key: &'static str, read: impl FnOnce(&Section<'a>) -> T) -> Option<T> {
        let table = self.file.as_table(key, self.get(key)?)?;
        let name = if self.name.is_empty() { format!("[{key}]") } else { format!("{key} of {}", self.name) };
        Some(self.file.section(table, name, read))
    }

    fn named_texts(&self, key: &'static str, check: fn(&str) -> Result<String, String>) -> BTreeMap<String, String> {
        let inner = self.get(key).and_then(|item| self.file.as_table(key, item));
        let text = |(name, item): (&Spanned<DeString<'_>>, &Item<'_>)| {
            let name = name.get_ref().to_string();
            let text = self.file.as_checked(&name, item, check)?;
            Some((name, text))
        };
        inner.into_iter().flatten().filter_map(text).collect()
    }

    fn checked<T>(&self, key: &'static str, check: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        self.file.as_checked(key, self.get(key)?, check)
    }

    fn text(&self, key: &'static str) -> Option<String> {
        self.checked(key, |text| Ok(text.to_owned()))
    }

    fn duration(&self, key: &'static str) -> Option<u64> {
        self.checked(key, parse_duration_ms)
    }

    fn size(&self, key: &'static str) -> Option<u64> {
        self.checked(key, |text| size_bytes(text).ok_or_else(|| "expected a size such as 32KiB or 8MiB".to_owned()))
    }

    fn one_of<T: Clone>(&self, key: &'static str, values: &[(&str, T)]) -> Option<T> {
        self.checked(key, |text| {
            let value = values.iter().find(|(word, _)| *word == text).map(|(_, value)| value.clone());
            let words = || values.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            value.ok_or_else(|| format!("expected one of {}", words()))
        })
    }

    /// The converted value of a key; `wanted` says in a fault what it must be.
    fn converted<T>(
        &self,
        key: &'static str,
        wanted: &str,
        convert: impl FnOnce(&'a DeValue<'a>) -> Option<T>,
    ) -> Option<T> {
        let item = self.get(key)?;
        let value = convert(item.get_ref());
        if value.is_none() {
            self.file.wrong(key, wanted, item);
        }
        value
    }

    fn texts(&self, key: &'static str) -> Vec<String> {
        let texts = self.converted(key, "a list of texts", |value| {
            value.as_array()?.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect()
        });
        texts.unwrap_or_default()
    }

    fn optional_texts(&self, key: &'static str) -> Option<Vec<String>> {
        self.has(key).then(|| self.texts(key))
    }

    fn count(&self, key: &'static str) -> Option<u64> {
        self.converted(key, "an integer above 0", |value| {
            let integer = value.as_integer()?;
            u64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|number| *number > 0)
        })
    }

    fn dollars(&self, key: &'static str) -> Option<f64> {
        self.converted(key, "a number of US dollars, 0 or more", |value| {
            let text = value.as_integer().map(DeInteger::as_str).or(value.as_float().map(DeFloat::as_str));
            text?.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
        })
    }
}

fn variable_name(name: &str) -> Result<String, String> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // A key that was pasted here by mistake must not be shown.
    is_name.then(|| name.to_owned()).ok_or_else(|| "write the name of an environment variable, not a key".to_owned())
}

/// The value of a key as it is shown for consent: in one notation, with keys masked, and without what is empty. `None`
/// for a faulty one too.
fn asked(key: &str, value: Value) -> Option<Value> {
    let is_filled = |value: &Value| !matches!(value, Value::List(items) if items.is_empty());
    Some(match (key, value) {
        ("base_url" | "url", Value::Str(url)) => keys::masked_address(&address(&url).ok()?).into(),
        ("args" | "argv" | "key_command", Value::List(words)) if !words.is_empty() => {
            let words: Option<Vec<String>> = words.iter().map(|word| Some(word.as_str()?.to_owned())).collect();
            Value::List(keys::masked_words(&words?).into_iter().map(Value::from).collect())
        }
        ("env" | "headers" | "query", Value::Object(texts)) if !texts.is_empty() => {
            let masked = |(name, text): (&String, &Value)| Some((name.clone(), keys::masked(name, text.as_str()?)));
            texts.iter().filter_map(masked).map(|(name, text)| (name, Value::from(text))).collect()
        }
        ("timeout" | "connect_timeout" | "idle_timeout" | "total_timeout", Value::Str(time)) => {
            format!("{}ms", parse_duration_ms(&time).ok()?).into()
        }
        ("output_max", Value::Str(size)) => format!("{}B", size_bytes(&size)?).into(),
        ("schema", Value::Str(text)) if text.trim_start().starts_with('{') => text.into(),
        ("schema", Value::Str(file)) => format!("file {file}").into(),
        ("schema", schema) => schema.to_text().into(),
        ("sandbox", Value::Object(rules)) => rules.into_iter().filter(|(_, rule)| is_filled(rule)).collect(),
        (_, value) if !is_filled(&value) || value == Value::empty_object() => return None,
        (_, value) => value,
    })
}

fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

/// A value as JSON; `None` if JSON cannot represent it.
fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Integer(integer) => Value::Int(i128::from_str_radix(integer.as_str(), integer.radix()).ok()?),
        DeValue::Float(float) => Value::number(float.as_str().parse().ok()?).ok()?,
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(_) => return None,
        DeValue::Array(items) => Value::List(items.iter().map(|item| json(item.get_ref())).collect::<Option<_>>()?),
        DeValue::Table(members) => {
            let member = |(key, value): (&Spanned<DeString<'_>>, &Item<'_>)| {
                Some((key.get_ref().to_string(), json(value.get_ref())?))
            };
            Value::Object(members.iter().map(member).collect::<Option<_>>()?)
        }
    })
}
