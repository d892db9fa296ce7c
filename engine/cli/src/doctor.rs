//! `rondo doctor`: the settings in force and where each was set, and the servers of models on this machine. A key's value
//! is never shown, only whether it is set. No provider is asked without `--ask`.

use std::path::{Path, PathBuf};

use rondo::protocol::Value;
use rondo::protocol::event::Durability;
use rondo::settings::keys::{masked_address, masked_words};
use rondo::settings::layers::ignored;
use rondo::settings::{
    Origin, PROMPT_CACHE, PROMPT_CACHE_RETENTION, Provider, RESPONSE_FORMAT, Settings, Sourced, list_price,
};
use rondo::store;
use rondo::store::folder::{self, FolderState};
use rondo::tell::one_line;
use serde::Serialize;

use super::consent::{ConsentRequest, is_plain_http};
use super::named_command::completed;
use super::settings_files::{self, SettingsFiles};
use super::store_access::{StoreView, is_trusted, view_store_at};
use super::{Exit, Failure, Output, StoreArgs, Style, json, local_servers, provider_trials, report, tooling};

/// Show the settings in force and where each comes from
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct DoctorArgs {
    /// Send each configured provider up to three tiny requests, which cost a few tokens, and say what it supports
    #[arg(long)]
    ask: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename = "finding")]
pub(super) struct Finding {
    pub subject: String,
    /// The value in force, never a key.
    pub value: Option<String>,
    pub from: Option<String>,
    pub is_fault: bool,
}

impl Finding {
    pub fn new(subject: impl Into<String>, value: impl Into<String>) -> Self {
        Self { subject: subject.into(), value: Some(value.into()), from: None, is_fault: false }
    }

    pub fn fault(subject: impl Into<String>, value: impl Into<String>) -> Self {
        Self { is_fault: true, ..Self::new(subject, value) }
    }

    fn path(subject: &str, path: Option<&PathBuf>) -> Self {
        Self { value: path.map(|path| path.display().to_string()), ..Self::new(subject, "") }
    }

    fn sourced(subject: impl Into<String>, value: impl Into<String>, from: &Origin) -> Self {
        Self { from: Some(from.to_string()), ..Self::new(subject, value) }
    }
}

pub fn doctor(args: &DoctorArgs, output: &mut Output) -> Result<Exit, Failure> {
    let files = settings_files::read(&args.store.flags())?;
    let settings = files.in_force()?;
    let mut findings = of_settings(&settings);
    findings.extend(of_trust(&files, &settings));
    findings.push(of_sandbox(&settings)?);
    findings.extend(of_store(&settings));
    findings.extend(of_system(&settings.store.value));
    let servers = local_servers::found()?;
    if output.is_json() {
        output.show_all(&findings, String::new)?;
        local_servers::lines(&servers, &settings, output)?;
    } else {
        findings.extend(local_servers::findings(&servers, &settings));
        output.text(&table(&findings))?;
    }
    if args.ask {
        files.refuse_unsafe()?;
        provider_trials::ask(&files, &settings, output)?;
    }
    Ok(Exit::Done)
}

pub(super) fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.subject.chars().count()).max().unwrap_or(0);
    let line = |finding: &Finding| {
        let mark = if finding.is_fault { "!" } else { " " };
        let (subject, value) = (one_line(&finding.subject), one_line(finding.value.as_deref().unwrap_or("not set")));
        let from = finding.from.as_ref().map_or_else(String::new, |from| format!("  ({})", one_line(from)));
        format!("{mark} {subject:<width$}  {value}{from}\n")
    };
    findings.iter().map(line).collect()
}

pub(super) fn of_settings(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![
        Finding::new("rondo", env!("BUILT_VERSION")),
        Finding::path("your settings", settings.user_file.as_ref()),
        Finding::path("rondo.toml", settings.file.as_ref()),
    ];
    let has_usable = settings.providers.values().any(Provider::is_usable);
    for (name, provider) in &settings.providers {
        let about = |what: &str| format!("provider.{name}.{what}");
        let time = |what: &str, value: &Sourced<u64>| {
            Finding::sourced(about(what), super::show::seconds(value.value), &value.from)
        };
        let address = masked_address(&provider.base_url.value);
        let is_open = is_plain_http(&provider.base_url.value);
        let warning = if is_open { ": prompts and the key go over plain http" } else { "" };
        findings.push(Finding {
            is_fault: is_open,
            ..Finding::sourced(about("base_url"), format!("{address}{warning}"), &provider.base_url.from)
        });
        findings.push(Finding::sourced(about("protocol"), provider.protocol.value.name(), &provider.protocol.from));
        let key = if provider.key.is_some() || provider.key_command.is_some() { "set" } else { "not set" };
        let from = match &provider.key_command {
            Some(command) => format!("printed by {}", masked_words(&command.value).join(" ")),
            None => format!("${}", provider.key_env.value),
        };
        findings.push(Finding {
            from: Some(from),
            // One is enough, but what the settings name is to be used.
            is_fault: !provider.is_usable() && (!has_usable || provider.key_env.from != Origin::Default),
            ..Finding::new(about("key"), key)
        });
        findings.push(time("connect_timeout", &provider.connect_timeout_ms));
        findings.push(time("idle_timeout", &provider.idle_timeout_ms));
        findings.extend(provider.total_timeout_ms.as_ref().map(|total| time("total_timeout", total)));
        let headers = provider.headers.keys().map(|name| (name, None));
        let of_variables = provider.headers_env.iter().map(|(name, variable)| (name, Some(format!("${variable}"))));
        for (name, from) in headers.chain(of_variables) {
            let is_fault = from.is_some() && !provider.header_keys.contains_key(name);
            let finding = Finding::new(about(&format!("headers.{name}")), if is_fault { "not set" } else { "set" });
            findings.push(Finding { from, is_fault, ..finding });
        }
        let format = &provider.response_format;
        findings.push(Finding::sourced(about(RESPONSE_FORMAT), format.value.word(), &format.from));
        let keep = &provider.prompt_cache;
        let dialect = provider.protocol.value.dialect(&provider.base_url.value);
        let instead = if keep.value.is_of(&dialect) { "" } else { "not a way of this protocol, so " };
        let shown = format!("{}: {instead}{}", keep.value.word(), keep.value.in_force(&dialect));
        findings.push(Finding::sourced(about(PROMPT_CACHE), shown, &keep.from));
        findings.extend(provider.prompt_cache_retention.as_ref().map(|time| {
            let unsent = if keep.value.sends(time.value, &dialect) { "" } else { ": this server is not sent it" };
            Finding::sourced(about(PROMPT_CACHE_RETENTION), format!("{}{unsent}", time.value.word()), &time.from)
        }));
    }
    for (name, model) in &settings.models {
        let about = |what: &str| format!("model.{name}.{what}");
        let texts = [("provider", &model.provider), ("model", &model.model)];
        findings.extend(texts.into_iter().filter_map(|(what, value)| {
            value.as_ref().map(|value| Finding::sourced(about(what), value.value.clone(), &value.from))
        }));
        let id = model.model.as_ref().map_or("", |model| model.value.as_str());
        findings.extend(settings.price(model, id).or_else(|| list_price(id)).map(|price| {
            let dollars = price.dollars;
            let date = price.date.map_or_else(String::new, |date| format!(", of {date}"));
            let claim = if price.is_claim { ", for no limit on money: nobody agreed to it" } else { "" };
            let (input, cached, written) = (dollars.input, dollars.cached_input, dollars.cache_write);
            let output = dollars.output;
            let figures = format!("{input} in, {cached} cached, {written} cache write, {output} out{date}{claim}");
            Finding { from: price.source, ..Finding::new(about("price"), figures) }
        }));
    }
    let default = settings.default_model.as_ref();
    findings.extend(default.map(|model| Finding::sourced("model otherwise", model.value.clone(), &model.from)));
    findings.extend(limits(settings));
    findings.extend(of_tools(settings));
    findings.extend(settings.hooks.iter().map(|(name, hook)| program("hook", name, &hook.argv)));
    findings.push(Finding::sourced("store", settings.store.value.display().to_string(), &settings.store.from));
    let durability = match settings.durability.value {
        Durability::Sync => "sync: an acknowledged step survives power loss",
        Durability::Log => "log: an acknowledged step survives a crash of the process, not power loss",
        Durability::Memory => "memory: nothing survives the process",
    };
    findings.push(Finding::sourced("durability", durability, &settings.durability.from));
    findings
}

fn program(key: &str, name: &str, argv: &[String]) -> Finding {
    Finding::new(format!("{key}.{name}"), masked_words(argv).join(" "))
}

fn of_trust(files: &SettingsFiles, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(user) = files.user() {
        findings.push(Finding::new("trust of your settings", "yours: all of it counts"));
        findings.extend(user.faults.iter().map(|fault| Finding::fault("trust of your settings", fault.to_string())));
    }
    if let Some(project) = files.project() {
        let subject = "trust of rondo.toml";
        findings.push(match files.whole().and_then(|whole| ConsentRequest::of(files, &whole, None)) {
            Err(failure) => Finding::fault(subject, failure.to_string()),
            Ok(asked) if asked.settings.is_none() => {
                Finding::new(subject, "nothing in it needs consent: all of it counts")
            }
            Ok(asked) if asked.is_agreed() => Finding::new(subject, "you agreed to it as it is: all of it counts"),
            Ok(asked) => {
                let ignored: Vec<_> = asked.asks().iter().map(|ask| format!("{} {}", ask.kind, ask.name)).collect();
                let ignored = ignored.join(", ");
                let why = if asked.changed().is_empty() { "nobody agreed" } else { "it changed since you agreed" };
                Finding::fault(subject, format!("{why}, so this is ignored: {ignored}; `rondo trust` shows it"))
            }
        });
        findings.extend(project.faults.iter().map(|fault| Finding::fault(subject, fault.to_string())));
        findings.extend(ignored(&project.stated).into_iter().map(|what| Finding::fault("ignored in rondo.toml", what)));
    }
    let subject = "trust of the store";
    findings.push(match folder::look(&settings.store.value) {
        Ok(FolderState::Nothing) => Finding::new(subject, "not there yet; the one that the first run makes is yours"),
        Ok(FolderState::Store(signed)) => match is_trusted(signed, settings) {
            Ok(true) => Finding::new(subject, "yours, by its tag"),
            Ok(false) => Finding::fault(
                subject,
                completed("not known as yours: it is read, and nothing runs over it; `rondo trust --store`"),
            ),
            Err(failure) => Finding::fault(subject, failure.to_string()),
        },
        Err(error) => Finding::fault(subject, error.to_string()),
    });
    let unsandboxed = settings.mcp.iter().filter(|(_, mcp)| mcp.command.is_some() && mcp.sandbox.is_none());
    findings.extend(unsandboxed.map(|(name, _)| {
        Finding::new(format!("mcp.{name} runs"), "outside every sandbox, with all rights that you have")
    }));
    findings.extend(tooling::code_in_reach(settings).iter().map(|what| Finding::fault("code in reach", what)));
    findings
}

fn of_sandbox(settings: &Settings) -> Result<Finding, Failure> {
    if settings.grant.sandbox == Some(false) {
        return Ok(Finding::fault("sandbox", "off, by [grant] sandbox"));
    }
    let sandbox = super::runtime()?.block_on(async { tooling::processes(settings).self_test().await.clone() });
    Ok(Finding { is_fault: sandbox.isolation.is_none(), ..Finding::new("sandbox", sandbox.to_string()) })
}

fn of_tools(settings: &Settings) -> Vec<Finding> {
    let grant = &settings.grant;
    let list = |list: Option<&Vec<String>>, default: &str| match list {
        None => format!("{default} (default)"),
        Some(list) if list.is_empty() => "nothing".to_owned(),
        Some(list) => list.join(", "),
    };
    let mut findings = vec![
        Finding::new("workspace", settings.workspace.display().to_string()),
        Finding::new("grant.tools", list(grant.tools.as_ref(), "list_files, read_file, search_files")),
        Finding::new("grant.read", list(grant.read.as_ref(), ".")),
        Finding::new("grant.write", list(grant.write.as_ref(), ".")),
        Finding::new("grant.hosts", list(Some(&grant.hosts), "")),
    ];
    let rules = [("grant.deny", &grant.deny), ("grant.approve", &grant.approve)];
    let rules = rules.into_iter().filter(|(_, rules)| !rules.is_empty());
    findings.extend(rules.map(|(name, rules)| Finding::new(name, rules.join(", "))));
    findings.extend(settings.tools.iter().map(|(name, tool)| program("tool", name, &tool.argv)));
    findings.extend(settings.mcp.iter().map(|(name, mcp)| Finding::new(format!("mcp.{name}"), mcp.place())));
    findings.push(Finding::path("trust records", settings.trust.as_ref()));
    findings.push(Finding::path("secret", settings.secret_file.as_ref()));
    findings
}

fn limits(settings: &Settings) -> Vec<Finding> {
    let Ok(Value::Object(limits)) = Value::from_serialize(&settings.limits) else { return Vec::new() };
    let limit = |(name, limit): (String, Value)| match settings.limits.wall_time_ms {
        Some(time_ms) if name == "wall_time_ms" => Finding::new("limits.wall_time", super::show::seconds(time_ms)),
        _ => Finding::new(format!("limits.{name}"), limit.to_text()),
    };
    limits.into_iter().filter(|(_, limit)| !limit.is_null()).map(limit).collect()
}

fn of_store(settings: &Settings) -> Vec<Finding> {
    let folder = &settings.store.value;
    if !folder.exists() {
        return vec![Finding::new("store state", "not there yet; the first run makes it")];
    }
    let holder = match store::holder(folder) {
        Ok(None) => Finding::new("store holder", "nobody"),
        Ok(Some(0)) => Finding::new("store holder", "another process"),
        Ok(Some(pid)) => Finding::new("store holder", format!("process {pid}")),
        Err(error) => Finding::fault("store holder", error.to_string()),
    };
    let count = |view: StoreView| {
        store::rows_after(view.store.as_ref(), None).try_fold(0_u64, |count, row| row.map(|_| count + 1))
    };
    let state = match view_store_at(folder).map(|view| view.map(count)) {
        Ok(None) => Finding::new("store state", "empty"),
        Ok(Some(Ok(threads))) => Finding::new("store state", format!("{threads} threads")),
        Ok(Some(Err(error))) => Finding::fault("store state", error.to_string()),
        Err(failure) => Finding::fault("store state", report::text(&failure, Style::PLAIN).trim_end()),
    };
    vec![holder, state]
}

fn of_system(store: &Path) -> Vec<Finding> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let libc = if cfg!(target_env = "musl") {
        "musl"
    } else if cfg!(target_env = "gnu") {
        "glibc"
    } else {
        "system"
    };
    let system = format!("{} {}, {}, {libc} libc", std::env::consts::OS, release.trim(), std::env::consts::ARCH);
    let nearest = store.ancestors().find(|folder| folder.exists());
    let of_store = nearest.and_then(|folder| rustix::fs::statfs(folder).ok()).map(|stat| file_system(&stat));
    [Finding::new("system", system)].into_iter().chain(of_store).collect()
}

/// The file system of the store: some do not honour a sync.
fn file_system(stat: &rustix::fs::StatFs) -> Finding {
    // Magic numbers of statfs(2).
    let (name, is_fault) = match stat.f_type {
        0xEF53 => ("ext", false),
        0x5846_5342 => ("xfs", false),
        0x9123_683E => ("btrfs", false),
        0x2FC1_2FC1 => ("zfs", false),
        0x0102_1994 => ("tmpfs, in memory: nothing survives a reboot", true),
        0x794C_7630 => ("overlayfs", false),
        0x6969 => ("nfs: locks and syncs depend on the server", true),
        0x6573_5546 => ("fuse: locks and syncs depend on its server", true),
        _ => ("other", false),
    };
    let free_mib = u64::try_from(stat.f_bsize).unwrap_or_default().saturating_mul(stat.f_bavail) >> 20;
    Finding { is_fault, ..Finding::new("file system of the store", format!("{name}, {free_mib} MiB free")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_force_is_told_with_its_source_and_without_keys() {
        let text = "[store]\ndurability = \"log\"\n[model.default]\nmodel = \"m\"\n\
                    price = { input = 1, output = 2, source = \"a page\", date = \"2026-11-01\" }\n\
                    [model.small]\nmodel = \"gpt-4.1-mini\"\n\
                    [limits]\ncost_usd = 0.5\n[hook.x]\nargv = [\"x\"]\n";
        let stated = rondo::settings::read("rondo.toml", text, rondo::settings::Layer::Project).unwrap();
        let variable = |name: &str| match name {
            "OPENAI_API_KEY" => Some("sk-0123456789".to_owned()),
            "RONDO_IDLE_TIMEOUT" => Some("5s".to_owned()),
            _ => None,
        };
        let files = rondo::settings::Files { project: Some("/here/rondo.toml".into()), user: None };
        let settings =
            rondo::settings::resolve(Path::new("/here"), &files, stated, &rondo::settings::Flags::default(), &variable)
                .unwrap();
        // How it was built differs from build to build.
        let shown = table(&of_settings(&settings)).replace(env!("BUILT_VERSION"), env!("CARGO_PKG_VERSION"));
        assert!(!shown.contains("sk-"));
        insta::assert_snapshot!(shown);
    }
}
