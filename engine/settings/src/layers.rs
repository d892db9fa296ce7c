//! Merges the two settings files, and decides which of their values apply.
//!
//! The user's file is the operator's word. Of a project's file only harmless values apply before a person agreed to
//! the rest: the ids of models, lower limits, `durability = "sync"`, and prices that nobody was asked about, as
//! [claims](Price::is_claim). All other values need [consent](asks), one by one. [`without_asking`] and [`asks`] destructure
//! the file field by field, so that a new key is handled in one of them or does not compile; a named table asks for each
//! of its keys.

use std::collections::BTreeMap;

use rondo_core::grant::Ceilings;
use rondo_protocol::Value;
use rondo_protocol::event::Durability;

use super::file::{FileSettings, Stated, StatedProvider};
use super::{FILE_NAME, Grant, Model, Origin, Price, SandboxSettings, Sourced, USER_FILE_NAME};
use crate::trust::{Ask, Kind};

/// A project's table that would replace one of the user's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "[{table}] is declared in {project} of the project and in {user} of the user, and a project never replaces a user's"
)]
pub struct Clash {
    pub table: String,
    pub project: String,
    pub user: String,
}

/// The parts of a project's file that apply before anybody agreed to it.
pub fn without_asking(project: &Stated, user: &Stated) -> Stated {
    Stated {
        durability: project.durability.clone().filter(is_sync),
        models: models_without_asking(&project.models, user),
        limits: project.limits.clone(),
        ..Stated::default()
    }
}

pub fn with_claims(mut project: Stated, user: &Stated) -> Stated {
    let are_all_asked = are_prices_asked(&project, user);
    for (name, model) in &mut project.models {
        if let Some(price) = &mut model.price {
            price.is_claim = !(are_all_asked || has_price(user, name));
        }
    }
    project
}

/// The parts of a project's file that need consent, one entry per value. Empty if all of it applies anyway.
pub fn asks(project: &Stated, user: &Stated) -> Vec<Ask> {
    let are_all_asked = are_prices_asked(project, user);
    asks_with(project, |name| are_all_asked || has_price(user, name))
}

/// Whether all prices of the project count only once a person agreed: under a limit on money, which a price of zero would
/// lift, and with whatever else is asked for. One in place of the user's always does.
fn are_prices_asked(project: &Stated, user: &Stated) -> bool {
    user.limits.cost_usd.is_some() || project.limits.cost_usd.is_some() || !asks_with(project, |_| false).is_empty()
}

fn has_price(user: &Stated, name: &str) -> bool {
    user.models.get(name).is_some_and(|model| model.price.is_some())
}

fn asks_with(project: &Stated, is_price_asked: impl Fn(&str) -> bool) -> Vec<Ask> {
    // Fields bound to `_` here apply without asking, see `without_asking`.
    let Stated {
        store,
        durability,
        providers,
        models,
        mcp,
        tools,
        hooks,
        imposed,
        sandbox,
        grant,
        limits: _,
        files: _,
    } = project;
    // Only the user sets the paths that no tool writes, and the rules for files. A total may exceed the default that applies without one.
    let SandboxSettings { protected: _, memory_bytes, processes, disk_bytes } = sandbox;
    let mut asks = Vec::new();
    let totals = [("memory", memory_bytes), ("processes", processes), ("disk", disk_bytes)];
    let total = |(name, total): (&str, &Option<u64>)| total.map(|total| Ask::new(Kind::Sandbox, name, total));
    asks.extend(totals.into_iter().filter_map(total));
    asks.extend(store.as_ref().map(|path| Ask::new(Kind::Store, "path", path.value.as_str())));
    let durability = durability.as_ref().filter(|durability| !is_sync(durability));
    asks.extend(durability.map(|_| Ask::new(Kind::Durability, "store", "log")));
    asks.extend(providers.iter().map(|(name, provider)| Ask::new(Kind::Provider, name, provider.asked.clone())));
    asks.extend(models.iter().filter_map(|(name, model)| of_model(name, model, is_price_asked(name))));
    asks.extend(mcp.iter().map(|(name, server)| Ask::new(Kind::Server, name, server.asked.clone())));
    asks.extend(tools.iter().map(|(name, tool)| Ask::new(Kind::Program, name, tool.asked.clone())));
    asks.extend(hooks.iter().map(|(name, hook)| Ask::new(Kind::Hook, name, hook.asked.clone())));
    asks.extend(imposed.iter().map(|imposed| Ask::new(Kind::Impose, &imposed.hook.kind, imposed.stated.clone())));
    asks.extend(of_grant(grant));
    asks
}

/// Merges both files: the project's values override the user's, unless that would remove a protection.
pub fn merged(user: Stated, project: Stated) -> Stated {
    let Grant { tools, read, write, hosts, deny, approve, sandbox } = project.grant;
    Stated {
        store: project.store.or(user.store),
        durability: project.durability.or(user.durability),
        providers: joined(user.providers, project.providers),
        models: models(user.models, project.models),
        mcp: joined(user.mcp, project.mcp),
        tools: joined(user.tools, project.tools),
        hooks: joined(user.hooks, project.hooks),
        // The user's hooks are outermost.
        imposed: user.imposed.into_iter().chain(project.imposed).collect(),
        sandbox: lower_totals(user.sandbox, &project.sandbox),
        grant: Grant {
            tools: added(user.grant.tools, tools),
            read: added(user.grant.read, read),
            write: added(user.grant.write, write),
            hosts: united(user.grant.hosts, hosts),
            deny: united(user.grant.deny, deny),
            approve: united(user.grant.approve, approve),
            // A project may turn the sandbox on, never off.
            sandbox: if sandbox == Some(true) { sandbox } else { user.grant.sandbox },
        },
        limits: lower_limits(&user.limits, &project.limits),
        files: user.files,
    }
}

/// Merges what the command line sets into the files' values. It is the user's word like their own file.
pub fn set(files: Stated, command_line: Stated) -> Stated {
    let sandbox = command_line.grant.sandbox.or(files.grant.sandbox);
    let mut providers = files.providers.clone();
    for (name, set) in command_line.providers {
        let stated = providers.remove(&name).unwrap_or_default();
        let provider = StatedProvider {
            line: stated.line,
            asked: stated.asked,
            base_url: set.base_url.or(stated.base_url),
            key_env: set.key_env.or(stated.key_env),
            key_command: set.key_command.or(stated.key_command),
            connect_timeout_ms: set.connect_timeout_ms.or(stated.connect_timeout_ms),
            idle_timeout_ms: set.idle_timeout_ms.or(stated.idle_timeout_ms),
            total_timeout_ms: set.total_timeout_ms.or(stated.total_timeout_ms),
            protocol: set.protocol.or(stated.protocol),
            prompt_cache: set.prompt_cache.or(stated.prompt_cache),
            prompt_cache_retention: set.prompt_cache_retention.or(stated.prompt_cache_retention),
            response_format: set.response_format.or(stated.response_format),
            headers: joined(set.headers, stated.headers),
            headers_env: joined(set.headers_env, stated.headers_env),
            query: joined(set.query, stated.query),
        };
        providers.insert(name, provider);
    }
    let FileSettings { max_bytes, media_types } = command_line.files.clone();
    let merged = merged(files, Stated { providers: BTreeMap::new(), ..command_line });
    let files = FileSettings {
        max_bytes: max_bytes.or(merged.files.max_bytes),
        media_types: media_types.or(merged.files.media_types),
    };
    Stated { providers, files, grant: Grant { sandbox, ..merged.grant }, ..merged }
}

/// The tables of a project that would replace one of the user's. A provider described only by the environment is not a
/// table.
pub fn clashes(project: &Stated, user: &Stated) -> Vec<Clash> {
    fn tables(stated: &Stated) -> impl Iterator<Item = (String, u32)> {
        let providers = stated.providers.iter().map(|(name, table)| (format!("provider.{name}"), table.line));
        let servers = stated.mcp.iter().map(|(name, table)| (format!("mcp.{name}"), table.line));
        let tools = stated.tools.iter().map(|(name, table)| (format!("tool.{name}"), table.line));
        let hooks = stated.hooks.iter().map(|(name, table)| (format!("hook.{name}"), table.line));
        providers.chain(servers).chain(tools).chain(hooks)
    }
    let users: BTreeMap<String, u32> = tables(user).collect();
    let clash = |(table, line): (String, u32)| {
        let (project, user) = (format!("{FILE_NAME}:{line}"), format!("{USER_FILE_NAME}:{}", users.get(&table)?));
        Some(Clash { table, project, user })
    };
    tables(project).filter_map(clash).collect()
}

pub fn ignored(project: &Stated) -> Vec<&'static str> {
    let sandbox = (project.grant.sandbox == Some(false)).then_some("[grant] sandbox = \"off\": only the user's counts");
    let protected = project.sandbox.protected.is_some().then_some("[sandbox] protected: only the user's counts");
    let files = (project.files != FileSettings::default()).then_some("[files]: only the user's counts");
    sandbox.into_iter().chain(protected).chain(files).collect()
}

fn is_sync(durability: &Sourced<Durability>) -> bool {
    durability.value == Durability::Sync
}

/// The id of each model, and its price as a claim if the user has none.
fn models_without_asking(project: &BTreeMap<String, Model>, user: &Stated) -> BTreeMap<String, Model> {
    let harmless = |(name, stated): (&String, &Model)| {
        let price = stated.price.clone().filter(|_| !has_price(user, name));
        let price = price.map(|price| Price { is_claim: true, ..price });
        (name.clone(), Model { provider: None, model: stated.model.clone(), price })
    };
    project.iter().map(harmless).collect()
}

fn of_model(name: &str, stated: &Model, is_price_asked: bool) -> Option<Ask> {
    let Model { provider, model: _, price } = stated;
    let price = price.as_ref().filter(|_| is_price_asked);
    if provider.is_none() && price.is_none() {
        return None;
    }
    let provider = provider.as_ref().map(|provider| ("provider", Value::from(provider.value.as_str())));
    let price = price.map(|price| ("price", Value::from_serialize(price).unwrap_or_default()));
    Some(Ask::new(Kind::Model, name, provider.into_iter().chain(price).collect::<Value>()))
}

fn of_grant(grant: &Grant) -> Vec<Ask> {
    // `off` never applies, and `on` is harmless, but both are statements about the sandbox.
    let Grant { tools, read, write, hosts, deny, approve, sandbox } = grant;
    let of = |kind: Kind, names: &[String]| -> Vec<Ask> {
        names.iter().map(|name| Ask::new(kind, name, Value::Null)).collect()
    };
    let mut asks = Vec::new();
    for (kind, names) in [(Kind::Grant, tools), (Kind::Read, read), (Kind::Write, write)] {
        asks.extend(of(kind, names.as_deref().unwrap_or_default()));
        if names.as_ref().is_some_and(Vec::is_empty) {
            asks.push(Ask::new(kind, "nothing", Value::Null));
        }
    }
    asks.extend(of(Kind::Host, hosts));
    asks.extend(of(Kind::Deny, deny));
    asks.extend(of(Kind::Approve, approve));
    asks.extend((*sandbox == Some(true)).then(|| Ask::new(Kind::Sandbox, "on", Value::Null)));
    asks
}

/// Both, by name; of one in both, the first. A table in both files is a clash, which is reported earlier.
fn joined<T>(first: BTreeMap<String, T>, second: BTreeMap<String, T>) -> BTreeMap<String, T> {
    second.into_iter().chain(first).collect()
}

fn models(user: BTreeMap<String, Model>, project: BTreeMap<String, Model>) -> BTreeMap<String, Model> {
    let mut models = user;
    for (name, Model { provider, model: id, price }) in project {
        let model = models.entry(name).or_default();
        // A price is that of the id beside it, and says nothing of another one.
        let is_same = model.model.as_ref().zip(id.as_ref()).is_none_or(|(own, other)| own.value == other.value);
        let own = std::mem::take(model);
        let price = price.or(own.price.filter(|_| is_same));
        *model = Model { provider: provider.or(own.provider), model: id.or(own.model), price };
    }
    models
}

fn added(user: Option<Vec<String>>, project: Option<Vec<String>>) -> Option<Vec<String>> {
    match (user, project) {
        (Some(user), Some(project)) => Some(united(user, project)),
        (user, project) => user.or(project),
    }
}

fn united(mut user: Vec<String>, mut project: Vec<String>) -> Vec<String> {
    project.retain(|text| !user.contains(text));
    user.append(&mut project);
    user
}

fn lower<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

fn lower_totals(user: SandboxSettings, project: &SandboxSettings) -> SandboxSettings {
    SandboxSettings {
        protected: user.protected,
        memory_bytes: lower(user.memory_bytes, project.memory_bytes),
        processes: lower(user.processes, project.processes),
        disk_bytes: lower(user.disk_bytes, project.disk_bytes),
    }
}

fn lower_limits(user: &Ceilings, project: &Ceilings) -> Ceilings {
    Ceilings {
        cost_usd: lower(user.cost_usd, project.cost_usd),
        depth: lower(user.depth, project.depth),
        model_calls: lower(user.model_calls, project.model_calls),
        steps: lower(user.steps, project.steps),
        tokens: lower(user.tokens, project.tokens),
        tool_calls: lower(user.tool_calls, project.tool_calls),
        visits: lower(user.visits, project.visits),
        wall_time_ms: lower(user.wall_time_ms, project.wall_time_ms),
    }
}

impl Origin {
    pub fn is_project(&self) -> bool {
        matches!(self, Self::Project(_))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Layer, read};
    use super::*;

    const EVERYTHING: &str = include_str!("tests/everything.toml");

    fn project(text: &str) -> Stated {
        read("rondo.toml", text, Layer::Project).unwrap()
    }

    fn user(text: &str) -> Stated {
        read("config.toml", text, Layer::User).unwrap()
    }

    #[test]
    fn every_value_of_a_project_counts_without_asking_or_is_asked() {
        let stated = project(EVERYTHING);
        let harmless = without_asking(&stated, &Stated::default());
        let asks = asks(&stated, &Stated::default());
        let shown: Vec<String> = asks.iter().map(|ask| format!("{} {}: {}", ask.kind, ask.name, ask.shown())).collect();
        insta::assert_snapshot!(shown.join("\n"));
        // No value that needs consent is among those that apply.
        let Stated { store, durability, providers, models, mcp, tools, hooks, imposed, sandbox, grant, limits, files } =
            harmless;
        assert_eq!((store, durability, grant, sandbox.protected), (None, None, Grant::default(), None));
        assert!(providers.is_empty() && mcp.is_empty() && tools.is_empty() && hooks.is_empty() && imposed.is_empty());
        assert!(models.values().all(|model| model.provider.is_none()));
        assert_eq!((limits, files), (stated.limits, FileSettings::default()));
    }

    #[test]
    fn what_cannot_harm_is_not_asked() {
        let text = "[store]\ndurability = \"sync\"\n[model.default]\nmodel = \"m\"\n\
                    price = { input = 1, output = 2 }\n[limits]\nsteps = 5\n";
        assert_eq!(asks(&project(text), &Stated::default()), []);
        let is_claim = |stated: Stated| stated.models["default"].price.as_ref().is_some_and(|price| price.is_claim);
        assert!(is_claim(without_asking(&project(text), &Stated::default())));
        assert!(is_claim(with_claims(project(text), &Stated::default())), "whoever agreed to something else");
        // With what else is asked for the price is shown, and agreed to.
        for more in ["cost_usd = 1\n", "[grant]\ntools = [\"shell\"]\n"] {
            let more = project(&format!("{text}{more}"));
            assert!(asks(&more, &Stated::default()).iter().any(|ask| ask.kind == Kind::Model), "{more:?}");
            assert!(!is_claim(with_claims(more, &Stated::default())));
        }
        let priced = user("[model.default]\nprice = { input = 9, output = 9 }\n");
        let asked = asks(&project(text), &priced);
        assert_eq!(asked.iter().map(|ask| ask.kind).collect::<Vec<_>>(), [Kind::Model]);
        let stated = merged(priced.clone(), without_asking(&project(text), &priced));
        assert_eq!(stated.models["default"].price.as_ref().map(|price| price.dollars.input), Some(9.0));
        // The user's price is not that of another model.
        let own = user("[model.default]\nmodel = \"small\"\nprice = { input = 1, output = 1 }\n");
        for (id, price) in [("small", Some(1.0)), ("large", None)] {
            let named = project(&format!("[model.default]\nmodel = \"{id}\"\n"));
            let stated = merged(own.clone(), without_asking(&named, &own));
            assert_eq!(stated.models["default"].price.as_ref().map(|price| price.dollars.input), price, "{id}");
        }
    }

    #[test]
    fn a_project_adds_to_what_the_user_grants_and_takes_nothing_away() {
        let own = user(
            "[grant]\ntools = [\"a\"]\ndeny = [\"x\"]\napprove = [\"p\"]\nhosts = [\"h\"]\nsandbox = \"on\"\n[limits]\nsteps = 9\n\
             [[impose]]\nuse = \"log\"\n",
        );
        let theirs = project(
            "[grant]\ntools = [\"b\"]\ndeny = [\"y\"]\nhosts = [\"h\", \"i\"]\nsandbox = \"off\"\n[limits]\nsteps = 99\ntokens = 5\n\
             [[impose]]\nuse = \"rate_limit\"\nper_minute = 5\n",
        );
        let both = merged(own, theirs);
        assert_eq!(both.grant.tools, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((both.grant.deny, both.grant.approve), (vec!["x".to_owned(), "y".to_owned()], vec!["p".to_owned()]));
        assert_eq!(both.grant.hosts, ["h", "i"]);
        assert_eq!(both.grant.sandbox, Some(true));
        assert_eq!((both.limits.steps, both.limits.tokens), (Some(9), Some(5)));
        let imposed: Vec<_> = both.imposed.iter().map(|imposed| imposed.hook.kind.as_str()).collect();
        assert_eq!(imposed, ["log", "rate_limit"]);
    }

    #[test]
    fn a_table_that_both_have_is_a_clash_with_both_places() {
        let own = user("[tool.build]\nargv = [\"make\"]\n[mcp.docs]\nurl = \"https://a\"\n");
        let theirs = project("# a comment\n[tool.build]\nargv = [\"evil\"]\n[tool.other]\nargv = [\"x\"]\n");
        let clashes = clashes(&theirs, &own);
        assert_eq!(clashes.len(), 1);
        let told = clashes[0].to_string();
        assert!(
            told.contains("[tool.build]") && told.contains("rondo.toml:3") && told.contains("config.toml:2"),
            "{told}"
        );
        assert_eq!(merged(own, theirs).tools["build"].argv, ["make"]);
    }
}
