//! Resolves flags, environment and files to the settings in force.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rondo_agent_kit::model::protocol::{self, Protocol};
use rondo_agent_kit::model::{PromptCache, ResponseFormat};
use rondo_agent_kit::redact::bare_key;
use rondo_core::local::FileRules;
use rondo_core::models;
use rondo_protocol::event::Durability;
use rondo_protocol::workflow::ModelSpec;
use rondo_protocol::workflow::read::duration_ms;

use super::file::StatedProvider;
use super::{
    DEFAULT_PROVIDER, FILE_NAME, Model, Origin, Price, Provided, Provider, Secret, Settings, Sourced, Stated,
    TOKEN_FILE, TOKEN_VARIABLE, USER_FILE_NAME, keys, list_price,
};

const DEFAULT_STORE: &str = ".rondo";
const DEFAULT_CONNECT_TIMEOUT_MS: u64 = 10_000;
const DEFAULT_IDLE_TIMEOUT_MS: u64 = 60_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    pub store: Option<PathBuf>,
    pub durability: Option<Durability>,
    /// `--set`, each as `key=value`
    pub set: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("${variable}: {what}")]
pub struct VariableFault {
    pub variable: String,
    /// What is wrong, without its value.
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    #[error("no model is set for `{name}`")]
    NoModel { name: String },
    #[error("model `{name}` is served by provider `{provider}`, which has no table in {FILE_NAME}")]
    UnknownProvider { name: String, provider: String },
    #[error("provider `{provider}` has no key: ${key_env} is not set")]
    NoKey {
        provider: String,
        key_env: String,
        /// The providers that have one.
        usable: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    pub provider: String,
    /// The provider's id of the model.
    pub model: String,
    pub price: Option<Price>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    pub project: Option<PathBuf>,
    pub user: Option<PathBuf>,
}

/// The `rondo.toml` of the project that contains `folder`, an absolute path: the nearest one in `folder` or above it.
/// A file in `home` itself or in the root of the file system does not count for folders below.
pub fn find_project(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let above = folder.ancestors().skip(1).take_while(|above| Some(*above) != home && above.parent().is_some());
    std::iter::once(folder).chain(above).map(|folder| folder.join(FILE_NAME)).find(|file| is_there(file))
}

/// Whether a file or link exists, even a dangling link, which is reported when it is read.
fn is_there(file: &Path) -> bool {
    std::fs::symlink_metadata(file).is_ok_and(|about| !about.is_dir())
}

/// The path of the user's settings file (<https://specifications.freedesktop.org/basedir-spec/latest/>).
pub fn user_file(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let folder = base_folder(variable, "XDG_CONFIG_HOME", ".config")?;
    Some(folder.join("rondo").join(USER_FILE_NAME))
}

/// The user's home: `HOME`, else the system's entry for the user.
pub fn home(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
}

fn base_folder(variable: &dyn Fn(&str) -> Option<String>, name: &str, below_home: &str) -> Option<PathBuf> {
    let stated = variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    stated.or_else(|| Some(home(variable)?.join(below_home)))
}

/// Resolves the settings. `folder` is the working folder; `stated` holds the settings of the files that apply;
/// `variable` reads the environment, where an empty value counts as unset.
pub fn resolve(
    folder: &Path,
    files: &Files,
    stated: Stated,
    flags: &Flags,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Settings, Vec<VariableFault>> {
    let mut environment = Environment { variable, faults: Vec::new() };
    let store = store_folder(folder, files, stated.store.as_ref(), flags, &environment);
    let durability = flags
        .durability
        .map(|value| Sourced { value, from: Origin::Flag("--durability".to_owned()) })
        .or(stated.durability)
        .unwrap_or(Sourced::by_default(Durability::Sync));

    let mut stated_providers = stated.providers;
    for service in protocol::ALL.iter().map(|protocol| protocol.service()) {
        let is_set = [service.key_env, service.base_url_env].iter().any(|name| environment.text(name).is_some());
        if is_set || service.provider == DEFAULT_PROVIDER {
            stated_providers.entry(service.provider.to_owned()).or_default();
        }
    }
    let mut providers = BTreeMap::new();
    for (name, stated) in stated_providers {
        let provider = provider(&name, stated, &mut environment);
        providers.insert(name, provider);
    }

    let default_model = environment.text("RONDO_MODEL");
    let servers = || stated.mcp.values();
    let mcp_keys = servers().flat_map(|mcp| mcp.key_env.iter().chain(mcp.headers_env.values()));
    let of_providers = providers
        .values()
        .flat_map(|provider| [&provider.key_env.value].into_iter().chain(provider.headers_env.values()));
    let mut secrets: Vec<Secret> = of_providers
        .chain(mcp_keys)
        .map(String::as_str)
        .chain(protocol::ALL.iter().map(|protocol| protocol.service().key_env))
        .chain([TOKEN_VARIABLE])
        .filter_map(|name| Some(Secret { name: name.to_owned(), value: environment.text(name)?.value }))
        .collect();
    let bare = |secret: &Secret| Secret { name: secret.name.clone(), value: bare_key(&secret.value).to_owned() };
    let sent = providers.values().flat_map(|provider| provider.headers.iter().chain(&provider.query));
    let set_by_hand = servers().flat_map(|mcp| &mcp.env).chain(sent);
    let set_by_hand = set_by_hand.filter(|(name, value)| keys::holds_a_key(name, value));
    secrets.extend(set_by_hand.map(|(name, value)| Secret { name: name.clone(), value: value.clone() }));
    let addresses = servers().filter_map(|mcp| mcp.url.as_deref());
    let addresses = addresses.chain(providers.values().map(|provider| provider.base_url.value.as_str()));
    secrets.extend(addresses.flat_map(keys::in_address));
    let commands = servers().map(|mcp| &mcp.args).chain(stated.tools.values().map(|tool| &tool.argv));
    let commands = commands.chain(stated.hooks.values().map(|hook| &hook.argv));
    let key_commands = providers.values().filter_map(|provider| provider.key_command.as_ref());
    let commands = commands.chain(key_commands.map(|command| &command.value));
    secrets.extend(commands.flat_map(|words| keys::in_words(words)));
    secrets.extend(secrets.iter().map(bare).collect::<Vec<_>>());
    secrets.sort_by(|a, b| a.name.cmp(&b.name));
    secrets.dedup();

    if !environment.faults.is_empty() {
        return Err(environment.faults);
    }
    Ok(Settings {
        file: files.project.clone(),
        user_file: files.user.clone(),
        store,
        durability,
        providers,
        models: stated.models,
        default_model,
        limits: stated.limits,
        files: FileRules {
            max_bytes: stated.files.max_bytes.unwrap_or(FileRules::default().max_bytes),
            media_types: stated.files.media_types.unwrap_or_default(),
        },
        workspace: files.project.as_deref().map_or(folder, folder_of).to_path_buf(),
        environment: passed_on(variable),
        trust: data_file(variable, "trust.json"),
        secret_file: secret_file(folder, variable),
        state_folder: state_folder(variable),
        grant: stated.grant,
        mcp: stated.mcp,
        tools: stated.tools,
        hooks: stated.hooks,
        imposed: stated.imposed,
        provided: Provided::default(),
        sandbox: stated.sandbox,
        held: Vec::new(),
        shown: BTreeMap::new(),
        secrets,
    })
}

/// A file of the user's that outlasts projects.
fn data_file(variable: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<PathBuf> {
    Some(base_folder(variable, "XDG_DATA_HOME", ".local/share")?.join("rondo").join(name))
}

/// The path of the user's secret, which identifies stores as the user's own.
fn secret_file(folder: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let stated = variable("RONDO_SECRET_FILE").filter(|file| !file.is_empty()).map(|file| folder.join(file));
    stated.or_else(|| data_file(variable, "secret"))
}

/// The folder of what the program can do without, such as how far an examination got.
fn state_folder(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    Some(base_folder(variable, "XDG_STATE_HOME", ".local/state")?.join("rondo"))
}

/// The environment of outside programs: what they need to find their way, and no key.
fn passed_on(variable: &dyn Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    const PASSED_ON: [&str; 12] = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TERM",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "JAVA_HOME",
    ];
    PASSED_ON.into_iter().filter_map(|name| Some((name.to_owned(), variable(name)?))).collect()
}

impl Settings {
    /// What a logical model costs, if the settings say it.
    pub fn stated_price(&self, model: &str) -> Option<models::Price> {
        Some(self.models.get(model)?.price.as_ref()?.dollars)
    }

    /// The model and the provider for a logical model. With `unnamed` no provider is asked, and a model without an id
    /// gets this one. Ids are otherwise the same, so heads compare with those of a real run.
    pub fn model(&self, name: &str, spec: Option<&ModelSpec>, unnamed: Option<&str>) -> Result<Resolved, Unresolved> {
        let stated = self.models.get(name);
        let model = stated
            .and_then(|stated| stated.model.as_ref().map(|model| model.value.clone()))
            .or_else(|| spec.and_then(|spec| spec.model.clone()))
            .or_else(|| self.default_model.as_ref().map(|model| model.value.clone()))
            .or_else(|| unnamed.map(str::to_owned))
            .ok_or_else(|| Unresolved::NoModel { name: name.to_owned() })?;
        let (provider, model) = match stated.and_then(|stated| stated.provider.as_ref()) {
            Some(provider) => (provider.value.clone(), model),
            None => self.served_by(model),
        };
        if unnamed.is_none() {
            let known = self.providers.get(&provider);
            let key_env = known.map(|known| known.key_env.value.clone());
            let key_env = key_env.or_else(|| Some(protocol::of_service(&provider)?.service().key_env.to_owned()));
            if !known.is_some_and(Provider::is_usable) {
                let Some(key_env) = key_env else {
                    return Err(Unresolved::UnknownProvider { name: name.to_owned(), provider });
                };
                let usable = self.providers.iter().filter(|(_, other)| other.is_usable());
                let usable = usable.map(|(name, _)| name.clone()).collect();
                return Err(Unresolved::NoKey { provider, key_env, usable });
            }
        }
        let price = stated.and_then(|stated| self.price(stated, &model));
        Ok(Resolved { provider, model, price })
    }

    /// The provider of a model for which none is set, and its id there: `anthropic/claude-opus-5` names both. At a
    /// gateway the whole is the id.
    fn served_by(&self, model: String) -> (String, String) {
        let is_usable = |name: &str| self.providers.get(name).is_some_and(Provider::is_usable);
        let default = self.providers.get(DEFAULT_PROVIDER);
        let is_gateway = default.is_some_and(|provider| provider.base_url.from != Origin::Default);
        match model.split_once('/') {
            Some((name, id)) if name != DEFAULT_PROVIDER && is_usable(name) => (name.to_owned(), id.to_owned()),
            Some((name, id)) if !is_gateway && protocol::of_service(name).is_some() => (name.to_owned(), id.to_owned()),
            _ => (DEFAULT_PROVIDER.to_owned(), model),
        }
    }

    /// The protocol of a provider, also of a public service that nothing is set for; `None` for an unknown name.
    pub fn protocol(&self, provider: &str) -> Option<&'static dyn Protocol> {
        let stated = self.providers.get(provider).map(|provider| provider.protocol.value);
        stated.or_else(|| protocol::of_service(provider))
    }

    pub fn response_format(&self, provider: &str) -> ResponseFormat {
        self.providers.get(provider).map(|provider| provider.response_format.value).unwrap_or_default()
    }

    /// The file with the token of the `rondo serve` that listens on a port, beside the user's secret.
    pub fn token_file(&self, port: u16) -> Option<PathBuf> {
        self.secret_file.as_ref().map(|secret| secret.with_file_name(format!("{TOKEN_FILE}-{port}")))
    }

    /// The stated price of a model with this id at its provider. A claim counts only if nothing else is known of that id.
    pub fn price(&self, stated: &Model, id: &str) -> Option<Price> {
        let claim = match stated.price.clone() {
            Some(price) if price.is_claim => price,
            price => return price,
        };
        let is_it = |model: &&Model| model.model.as_ref().is_some_and(|model| model.value == id);
        let known = self.models.values().filter(is_it).filter_map(|model| model.price.clone());
        known.filter(|price| !price.is_claim).chain(list_price(id)).next().or(Some(claim))
    }
}

/// Returns an address without a trailing slash.
///
/// # Errors
/// If it is not http or https, or contains a user name, which would show wherever the address does.
pub(super) fn address(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let authority = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match authority {
        None | Some("") => Err("an address begins with http:// or https:// and a host".to_owned()),
        Some(authority) if authority.contains('@') => {
            Err("an address must not hold a user or a password; name a variable in `key_env`".to_owned())
        }
        Some(_) if text.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            Err("an address must not hold blanks".to_owned())
        }
        Some(_) => Ok(text.trim_end_matches('/').to_owned()),
    }
}

pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    match duration_ms(text) {
        Some(0) => Err("a duration must be longer than nothing".to_owned()),
        Some(milliseconds) => Ok(milliseconds),
        None => {
            let excerpt: String = text.chars().take(40).collect();
            Err(format!("{excerpt:?} is not a duration such as 250ms, 30s, 10m, 2h or 3d"))
        }
    }
}

struct Environment<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
    faults: Vec<VariableFault>,
}

impl Environment<'_> {
    fn text(&self, name: &str) -> Option<Sourced<String>> {
        let value = (self.variable)(name).filter(|value| !value.is_empty())?;
        Some(Sourced { value, from: Origin::Environment(name.to_owned()) })
    }

    fn checked<T>(&mut self, name: &str, check: impl Fn(&str) -> Result<T, String>) -> Option<Sourced<T>> {
        let text = self.text(name)?;
        match check(&text.value) {
            Ok(value) => Some(Sourced { value, from: text.from }),
            Err(what) => {
                if self.faults.iter().all(|fault| fault.variable != name) {
                    self.faults.push(VariableFault { variable: name.to_owned(), what });
                }
                None
            }
        }
    }
}

fn store_folder(
    folder: &Path,
    files: &Files,
    stated: Option<&Sourced<String>>,
    flags: &Flags,
    environment: &Environment<'_>,
) -> Sourced<PathBuf> {
    if let Some(store) = &flags.store {
        return Sourced { value: folder.join(store), from: Origin::Flag("--store".to_owned()) };
    }
    if let Some(store) = stated.filter(|store| matches!(store.from, Origin::Flag(_))) {
        return Sourced { value: folder.join(&store.value), from: store.from.clone() };
    }
    if let Some(store) = environment.text("RONDO_STORE") {
        return Sourced { value: folder.join(store.value), from: store.from };
    }
    let beside = files.project.as_deref().map_or(folder, folder_of);
    match stated {
        // A path in the user's file is relative to that file's folder, or the one of all stores.
        Some(store) => {
            let beside = if store.from.is_project() { Some(beside) } else { files.user.as_deref().map(folder_of) };
            Sourced { value: beside.unwrap_or(folder).join(&store.value), from: store.from.clone() }
        }
        None => Sourced::by_default(beside.join(DEFAULT_STORE)),
    }
}

fn provider(name: &str, stated: StatedProvider, environment: &mut Environment<'_>) -> Provider {
    let of_name = protocol::of_service(name);
    let variable = of_name.map(|protocol| protocol.service().base_url_env);
    let from_environment = variable.and_then(|variable| environment.checked(variable, address));
    let base_url = stronger(from_environment, stated.base_url);
    let protocol = stated.protocol.unwrap_or_else(|| {
        let known = base_url.as_ref().and_then(|base_url| protocol::at(&base_url.value));
        Sourced::by_default(known.or(of_name).unwrap_or(protocol::COMMON))
    });
    let service = protocol.value.service();
    let base_url = base_url.unwrap_or_else(|| Sourced::by_default(service.base_url.to_owned()));
    let own_key_env = of_name.map_or(service.key_env, |of_name| of_name.service().key_env);
    let key_env = stated.key_env.unwrap_or_else(|| Sourced::by_default(own_key_env.to_owned()));
    // A key goes to another server than its own only if the operator sets this.
    let is_own_key = (of_name.is_some() || key_env.from != Origin::Default) && stated.key_command.is_none();
    let key = is_own_key.then(|| environment.text(&key_env.value)).flatten();
    let mut timeout = |variable: &str, stated: Option<Sourced<u64>>| {
        stronger(environment.checked(variable, parse_duration_ms), stated)
    };
    let by_address = || Sourced::by_default(protocol.value.dialect(&base_url.value).response_format);
    let response_format = stated.response_format.unwrap_or_else(by_address);
    Provider {
        protocol,
        base_url,
        key: key.map(|key| Secret { name: key_env.value.clone(), value: key.value }),
        key_env,
        key_command: stated.key_command,
        connect_timeout_ms: timeout("RONDO_CONNECT_TIMEOUT", stated.connect_timeout_ms)
            .unwrap_or(Sourced::by_default(DEFAULT_CONNECT_TIMEOUT_MS)),
        idle_timeout_ms: timeout("RONDO_IDLE_TIMEOUT", stated.idle_timeout_ms)
            .unwrap_or(Sourced::by_default(DEFAULT_IDLE_TIMEOUT_MS)),
        total_timeout_ms: timeout("RONDO_TOTAL_TIMEOUT", stated.total_timeout_ms),
        prompt_cache: stated.prompt_cache.unwrap_or(Sourced::by_default(PromptCache::default())),
        prompt_cache_retention: stated.prompt_cache_retention,
        response_format,
        header_keys: stated
            .headers_env
            .iter()
            .filter_map(|(header, variable)| Some((header.clone(), environment.text(variable)?.value)))
            .collect(),
        headers: stated.headers,
        headers_env: stated.headers_env,
        query: stated.query,
    }
}

/// The value of the environment, unless the command line states one.
fn stronger<T>(environment: Option<Sourced<T>>, stated: Option<Sourced<T>>) -> Option<Sourced<T>> {
    match stated {
        Some(stated) if matches!(stated.from, Origin::Flag(_)) => Some(stated),
        stated => environment.or(stated),
    }
}

/// The folder of a file, in a form that can be opened: `.` for a bare name.
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}
