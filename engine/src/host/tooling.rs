//! The tools in the operator's settings: their sandboxes, rondo's own tools, programs that `rondo.toml` declares, and
//! servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rondo_agent_kit::mcp::{self, Server, ServerProgram, ServerSettings, Transport};
use rondo_agent_kit::pinned::digest;
use rondo_agent_kit::redact::Secret;
use rondo_agent_kit::sandbox::files::{Access, Workspace};
use rondo_agent_kit::sandbox::http::{Gate, GateSettings, HostError};
use rondo_agent_kit::sandbox::process::{self, Limits, ProcessSettings, Processes, WorkingDir};
use rondo_agent_kit::sandbox::{CREDENTIALS, key_files, protected, reached};
use rondo_agent_kit::tool::{HttpGet, Program, ProgramSettings, Shell, Tool, ToolSet, Typed, file_tools, unchecked};
use rondo_core::exit::Exit;
use rondo_core::grant::{Grants, Rule};
use rondo_core::hook::HookProgram;
use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::workflow::{OnHookError, Workflow};
use rondo_settings::program;
use rondo_settings::trust::{Records, server_key};
use rondo_settings::{Cwd, Grant, Mcp, Sandbox, SandboxSettings, Settings, ToolSchema};

use super::{consent, launcher, workflow};
use crate::failure::Failure;
use crate::files::read_text;

const MAX_SCHEMA_BYTES: usize = 1 << 20;

/// The sandbox of programs that are tools.
pub fn processes(settings: &Settings) -> Arc<Processes> {
    confined(settings, hidden_from_tools(settings))
}

/// The programs that are hooks, each with its sandbox: its own `sandbox`, else that of tools, but with access to the
/// files of hooks, which no tool may replace.
pub(crate) fn hook_programs(settings: &Settings) -> Result<BTreeMap<String, HookProgram>, Failure> {
    let program = |(name, hook): (&String, &rondo_settings::HookProgram)| {
        let processes = match &hook.sandbox {
            Some(sandbox) => Arc::new(sandboxed(&format!("[hook.{name}]"), &hook.argv, sandbox, settings)?),
            None => confined(settings, hidden(settings, &[])),
        };
        let program = HookProgram {
            argv: hook.argv.clone(),
            pinned: consent::pinned(settings, &hook.argv),
            working_dir: match hook.cwd {
                Some(Cwd::Workspace) => WorkingDir::workspace(),
                Some(Cwd::Private) | None => WorkingDir::Private,
            },
            access: if hook.sandbox.is_some() { process::Access::Granted } else { process::Access::Write },
            timeout: hook.timeout_ms.map(Duration::from_millis),
            is_required: hook.on_error == Some(OnHookError::Fail),
            processes,
        };
        Ok((name.clone(), program))
    };
    settings.hooks.iter().map(program).collect()
}

fn confined(settings: &Settings, hidden: Vec<PathBuf>) -> Arc<Processes> {
    let Grant { read, write, sandbox, .. } = &settings.grant;
    let process_settings = process_settings(settings, hidden, (read.as_deref(), write.as_deref()));
    Arc::new(Processes::new(ProcessSettings { sandbox: sandbox.unwrap_or(true), ..process_settings }))
}

/// A sandbox with access to these paths.
fn process_settings(
    settings: &Settings,
    hidden: Vec<PathBuf>,
    (read, write): (Option<&[String]>, Option<&[String]>),
) -> ProcessSettings {
    let SandboxSettings { protected: _, memory_bytes, processes, disk_bytes } = &settings.sandbox;
    let most = Limits::default();
    ProcessSettings {
        launcher: launcher::file().unwrap_or_default(),
        workspace: settings.workspace.clone(),
        read: granted_paths(settings, read),
        write: granted_paths(settings, write),
        hidden,
        read_only: read_only(settings),
        protected: protected_names(settings),
        ceilings: Limits {
            memory_bytes: memory_bytes.unwrap_or(most.memory_bytes),
            processes: processes.unwrap_or(most.processes),
            file_bytes: disk_bytes.unwrap_or(most.file_bytes),
            ..most
        },
        sandbox: true,
        env: settings.environment.clone(),
    }
}

/// The sandbox of `shell`: without the programs that it is denied by name.
fn of_shell(settings: &Settings, processes: &Arc<Processes>) -> Arc<Processes> {
    match denied_programs(settings) {
        denied if denied.is_empty() => Arc::clone(processes),
        denied => confined(settings, [hidden_from_tools(settings), denied].concat()),
    }
}

/// The files of denied programs. A link to a program of another name (busybox, `sh`) is left: hiding that file would
/// hide other programs with it.
fn denied_programs(settings: &Settings) -> Vec<PathBuf> {
    let path = settings.environment.get("PATH").map_or("", String::as_str);
    let file_of = |folder: PathBuf, name: &str| {
        let file = folder.join(name).canonicalize().ok().filter(|file| file.is_file())?;
        file.file_name()?.to_str()?.starts_with(name).then_some(file)
    };
    let rules = settings.grant.deny.iter().filter_map(|text| text.parse::<Rule>().ok());
    let denied = rules.filter_map(|rule| rule.program().map(str::to_owned));
    denied.flat_map(|name| std::env::split_paths(path).filter_map(move |folder| file_of(folder, &name))).collect()
}

/// The tools available without a server: rondo's own, and programs.
pub fn local(settings: &Settings) -> Result<(ToolSet, Arc<Workspace>), Failure> {
    let refused = |what: String| Failure::new(Code::SettingsValue, what);
    let Settings { workspace, grant, .. } = settings;
    let access = Access {
        read: granted_paths(settings, grant.read.as_deref()),
        write: granted_paths(settings, grant.write.as_deref()),
        hidden: hidden_from_tools(settings),
        read_only: read_only(settings),
        protected: protected_names(settings),
    };
    let workspace = Workspace::open(workspace, access)
        .map_err(|error| refused(format!("the workspace {}: {error}", workspace.display())))?;
    let processes = processes(settings);
    let (gate, gates) = gates(&grant.hosts).map_err(|error| refused(format!("[grant] hosts: {error}")))?;
    let workspace = Arc::new(workspace);
    let mut all = file_tools(&workspace);
    all.push(Arc::new(Typed::new(Shell::new(of_shell(settings, &processes)))));
    all.push(Arc::new(Typed::new(HttpGet::new(gate, gates))));
    for (name, tool) in &settings.tools {
        all.push(Arc::new(program(name, tool, (settings, &processes))?));
    }
    let mut tools = ToolSet::default();
    all.into_iter().try_for_each(|tool| add(&mut tools, tool))?;
    Ok((tools, workspace))
}

/// The gate for all roles, and those of roles with more hosts: `ROLE/host` is granted to that role alone.
fn gates(hosts: &[String]) -> Result<(Gate, BTreeMap<String, Gate>), HostError> {
    let gate = |hosts: Vec<String>| Gate::new(GateSettings { hosts, ..GateSettings::default() });
    let of_role = |host: &String| host.split_once('/').map(|(role, host)| (role.to_owned(), host.to_owned()));
    let common: Vec<String> = hosts.iter().filter(|host| of_role(host).is_none()).cloned().collect();
    let mut of_roles: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (role, host) in hosts.iter().filter_map(of_role) {
        of_roles.entry(role).or_insert_with(|| common.clone()).push(host);
    }
    let of_roles = of_roles.into_iter().map(|(role, hosts)| Ok((role, gate(hosts)?)));
    let of_roles = of_roles.collect::<Result<_, HostError>>()?;
    Ok((gate(common)?, of_roles))
}

/// The servers with a granted tool that a role of `workflow` names. No other server is ever started.
pub fn asked<'s>(workflow: &Workflow, settings: &'s Settings, grants: &Grants) -> Vec<&'s str> {
    let named = named(workflow);
    let is_of = |server: &str, tool: &str| tool.strip_prefix(server).is_some_and(|tool| tool.starts_with('.'));
    let is_asked_for = |server: &str| named.keys().any(|tool| is_of(server, tool));
    let is_granted = |server: &str| grants.tools.iter().any(|rule| rule.tool() == "*" || is_of(server, rule.tool()));
    let is_denied =
        |server: &str| grants.deny.iter().any(|rule| rule.covers_all() && rule.is_of(None, &format!("{server}.any")));
    let wanted = |server: &&str| is_asked_for(server) && is_granted(server) && !is_denied(server);
    settings.mcp.keys().map(String::as_str).filter(wanted).collect()
}

/// A server of the settings that starts when one of its tools is called; its tools are the pinned ones.
pub fn replay_server(name: &str, settings: &Settings) -> Result<Server, Failure> {
    let mcp = declared(name, settings)?;
    let records = Records::read(settings.trust.as_deref())?;
    let Some(pins) = records.servers.get(&key(name, mcp)) else {
        let what = format!("the tools of the MCP server {name} are not pinned");
        let message = format!("{what}, and a replay does not start the server to list them");
        let hint = Hint::from(pinning(name)).words(" starts it, shows its tools and pins them");
        return Err(Failure::new(Code::NoPin, message).with_hint(hint));
    };
    Server::pinned(server_settings(name, mcp, settings)?, pins.clone())
        .map_err(|error| server_failure(error.code, error.message))
}

#[derive(Clone)]
pub enum NoServer {
    /// It could not be started; calls of its tools fail.
    Unusable(Failure),
    /// Its tools differ from the agreed ones.
    Refused(Failure),
}

/// Starts a server of the settings and checks its tools against the agreed ones. Also returns notices.
pub async fn started(name: &str, settings: &Settings) -> Result<(Server, Vec<String>), NoServer> {
    let mcp = declared(name, settings).map_err(NoServer::Refused)?;
    let server = start(name, mcp, settings).await.map_err(NoServer::Unusable)?;
    let notice = pinned(name, mcp, &server, settings).map_err(NoServer::Refused)?;
    let not_checked = |tool: Arc<dyn Tool>| {
        let (name, why) = (&tool.spec().name, unchecked(&*tool)?);
        Some(format!("tool {name}: only its server checks its arguments, because its schema cannot be read: {why}"))
    };
    let notices = notice.into_iter().chain(left_out(name, &server));
    let notices = notices.chain(server.tools().into_iter().filter_map(not_checked)).collect();
    Ok((server, notices))
}

/// The tools of a server that no model is offered, a sentence each.
pub fn left_out(name: &str, server: &Server) -> Vec<String> {
    server.left_out().iter().map(|tool| format!("server {name}: a tool cannot be offered: {tool}")).collect()
}

fn declared<'s>(name: &str, settings: &'s Settings) -> Result<&'s Mcp, Failure> {
    settings.mcp.get(name).ok_or_else(|| {
        let known = settings.mcp.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let hint = if known.is_empty() { "it has no servers".to_owned() } else { format!("it has: {known}") };
        Failure::new(Code::ToolLacking, format!("rondo.toml has no [mcp.{name}]")).with_hint(hint)
    })
}

/// The tools known without starting anything: the local ones, and pinned ones of servers.
pub fn seen(settings: &Settings) -> Result<ToolSet, Failure> {
    let records = records(settings)?;
    let (mut tools, _) = local(settings)?;
    for (name, _) in settings.mcp.iter().filter(|(name, mcp)| records.servers.contains_key(&key(name, mcp))) {
        replay_server(name, settings)?.tools().into_iter().try_for_each(|tool| add(&mut tools, tool))?;
    }
    Ok(tools)
}

/// What looks at the tools of a server and pins them.
fn pinning(server: &str) -> Operation {
    Operation::new(Verb::Trust).with("server", server)
}

/// The trust records, which are only read if a server needs them.
fn records(settings: &Settings) -> Result<Records, Failure> {
    Ok(Records::read(settings.trust.as_deref().filter(|_| !settings.mcp.is_empty()))?)
}

/// Each server of the settings, with the state of its pinned tools and those that no model is offered.
pub fn not_started(settings: &Settings) -> Result<Vec<(String, String)>, Failure> {
    let records = records(settings)?;
    let of_server = |(name, mcp): (&String, &Mcp)| {
        let key = key(name, mcp);
        let Some(pins) = records.servers.get(&key) else {
            return (name.clone(), "nothing is pinned of its tools".to_owned());
        };
        let pinned = format!("{} tools of it are pinned", pins.len());
        (name.clone(), records.left_out(&key).iter().fold(pinned, |told, left_out| format!("{told}\n{left_out}")))
    };
    Ok(settings.mcp.iter().map(of_server).collect())
}

pub fn add(tools: &mut ToolSet, tool: Arc<dyn Tool>) -> Result<(), Failure> {
    tools.add(tool).map_err(|clash| {
        Failure::new(Code::SettingsValue, clash.to_string())
            .with_hint("give the table in rondo.toml another name; the names of rondo's own tools are taken")
    })
}

async fn start(name: &str, mcp: &Mcp, settings: &Settings) -> Result<Server, Failure> {
    let server = server_settings(name, mcp, settings)?;
    Server::start(server).await.map_err(|error| server_failure(error.code, error.message))
}

fn server_failure(code: Code, message: String) -> Failure {
    Failure::new(code, message).with_exit(Exit::InputOutput)
}

fn server_settings(name: &str, mcp: &Mcp, settings: &Settings) -> Result<ServerSettings, Failure> {
    let secret = |name: &String| settings.secrets.iter().find(|secret| secret.name == *name).cloned();
    let key = mcp.key_env.as_ref().and_then(secret);
    let transport = if let Some(command) = &mcp.command {
        let stated = mcp.env.iter().map(|(name, value)| Secret { name: name.clone(), value: value.clone() });
        let sandboxed = |sandbox| sandboxed(&format!("[mcp.{name}]"), &mcp.words(), sandbox, settings);
        Transport::Stdio(ServerProgram {
            command: command.clone(),
            args: mcp.args.clone(),
            env: stated.chain(key).collect(),
            working_dir: match mcp.cwd {
                // In a sandbox the working folder is below its own workspace.
                Some(Cwd::Workspace) if mcp.sandbox.is_some() => WorkingDir::workspace(),
                Some(Cwd::Workspace) => WorkingDir::Folder(settings.workspace.clone()),
                Some(Cwd::Private) | None => WorkingDir::Private,
            },
            sandbox: mcp.sandbox.as_ref().map(sandboxed).transpose()?,
            pinned: consent::pinned(settings, &mcp.words()),
            launcher: launcher::file(),
        })
    } else {
        let headers = mcp.headers_env.iter();
        let headers = headers.filter_map(|(header, variable)| Some((header.clone(), secret(variable)?)));
        Transport::Http { url: mcp.url.clone().unwrap_or_default(), bearer: key, headers: headers.collect() }
    };
    let mut server = ServerSettings::new(name, transport);
    if let Some(timeout_ms) = mcp.timeout_ms {
        server.call_timeout = Duration::from_millis(timeout_ms);
    }
    Ok(server)
}

/// The sandbox of one program, with the paths that its table names, and its own script to read.
fn sandboxed(of: &str, argv: &[String], sandbox: &Sandbox, settings: &Settings) -> Result<Processes, Failure> {
    let own: Vec<PathBuf> = scripts(argv.iter(), &settings.workspace).collect();
    let granted = (Some(sandbox.read.as_slice()), Some(sandbox.write.as_slice()));
    let mut process_settings = process_settings(settings, hidden(settings, &own), granted);
    process_settings.read_only.extend(own.iter().cloned());
    process_settings.read.extend(own);
    let processes = Processes::new(process_settings);
    if sandbox.hosts.is_empty() {
        return Ok(processes);
    }
    let gate = Gate::new(GateSettings { hosts: sandbox.hosts.clone(), ..GateSettings::default() });
    let gate = gate.map_err(|error| Failure::new(Code::SettingsValue, format!("`sandbox` of {of}: {error}")))?;
    Ok(processes.with_hosts(gate))
}

/// Checks the tools of a server against the agreed ones; those of a new server are pinned.
fn pinned(name: &str, mcp: &Mcp, server: &Server, settings: &Settings) -> Result<Option<String>, Failure> {
    if settings.trust.is_none() {
        let notice = "without HOME there is no place for trust records, so a change is not noticed";
        return Ok(Some(format!("server {name}: {notice}")));
    }
    let (key, offered) = (key(name, mcp), server.pins());
    let compared = Records::update(settings.trust.as_deref(), |records| {
        let compared = records.servers.get(&key).map(|agreed| mcp::compare(agreed, &offered));
        if compared.is_none() {
            records.pin(key.clone(), offered.clone(), left_out(name, server));
        }
        compared.unwrap_or(Ok(()))
    });
    let Err(changed) = compared? else { return Ok(None) };
    let message =
        format!("the tools of the MCP server {name} are not what they were when they were agreed to:\n{changed}");
    let hint = Hint::from("if that is as it should be: ").operation(pinning(name));
    Err(Failure::new(Code::McpChanged, message).with_exit(Exit::Denied).with_hint(hint))
}

pub struct Offered {
    key: String,
    /// By the server's name for each.
    pub pins: BTreeMap<String, mcp::Pin>,
    /// How they differ from the agreed ones; `None` if they do not, or nobody was asked.
    pub changed: Option<String>,
    pub is_pinned: bool,
    pub left_out: Vec<String>,
}

impl Offered {
    pub fn digest(&self) -> Digest {
        let mut bytes = format!("rondo/pins/v1\n{}\n", self.key).into_bytes();
        self.pins.iter().for_each(|(name, pin)| bytes.extend(format!("{name} {}\n", pin.digest).into_bytes()));
        Digest::sha256(&bytes)
    }
}

pub async fn offered(name: &str, settings: &Settings) -> Result<Offered, Failure> {
    let mcp = declared(name, settings)?;
    let server = start(name, mcp, settings).await?;
    let (pins, left_out) = (server.pins(), left_out(name, &server));
    server.stop().await;
    let key = key(name, mcp);
    let records = Records::read(settings.trust.as_deref())?;
    let pinned = records.servers.get(&key);
    let changed = pinned.and_then(|old| mcp::compare(old, &pins).err()).map(|changed| changed.to_string());
    Ok(Offered { is_pinned: pinned.is_some(), key, pins, changed, left_out })
}

pub fn agree(offered: Offered, settings: &Settings) -> Result<(), Failure> {
    let Offered { key, pins, left_out, .. } = offered;
    Records::update(settings.trust.as_deref(), |records| records.pin(key, pins, left_out)).map_err(Failure::from)
}

fn key(name: &str, mcp: &Mcp) -> String {
    server_key(name, &mcp.words(), mcp.url.as_deref())
}

/// A digest of the program behind each table of tools, see [`HookResources::backends`](HookResources::backends).
pub fn backends(settings: &Settings) -> BTreeMap<String, Digest> {
    let of_text = |text: String| Digest::sha256(text.as_bytes());
    // An edited program gives other results.
    let of_program = |tool: &rondo_settings::Tool| {
        let files = files_among(tool.argv.iter(), &settings.workspace).map(|file| {
            let shown = settings.shown.get(&*file.to_string_lossy());
            shown.map_or_else(|| digest(&file), |(_, digest)| digest.clone())
        });
        of_text(format!("{:?}{:?}", tool.argv, files.collect::<Vec<_>>()))
    };
    let programs = settings.tools.iter().map(|(name, tool)| (format!("tool.{name}"), of_program(tool)));
    programs.chain(settings.mcp.iter().map(|(name, mcp)| (format!("mcp.{name}"), of_text(key(name, mcp))))).collect()
}

fn program(
    name: &str,
    tool: &rondo_settings::Tool,
    (settings, processes): (&Settings, &Arc<Processes>),
) -> Result<Program, Failure> {
    let schema = match &tool.schema {
        None => None,
        Some(ToolSchema::Inline(text)) => Some(text.clone()),
        Some(ToolSchema::File(file)) => Some(read_text(Path::new(file), MAX_SCHEMA_BYTES)?),
    };
    let pinned = consent::pinned(settings, tool.argv.iter().chain(tool.schema_file()));
    let program_settings = ProgramSettings { pinned, ..program::settings(name, tool, schema) };
    Program::new(program_settings, Arc::clone(processes))
        .map_err(|error| Failure::new(Code::SettingsValue, format!("[tool.{name}]: {error}")))
}

/// Granted paths: `~` is the user's home, others are relative to the workspace, which is granted by default.
pub fn granted_paths(settings: &Settings, granted: Option<&[String]>) -> Vec<PathBuf> {
    let Some(granted) = granted else { return vec![PathBuf::from(".")] };
    let home = settings.environment.get("HOME").map(Path::new);
    granted
        .iter()
        .filter_map(|path| match path.strip_prefix('~') {
            // Without a home this path means nothing.
            Some(rest) if rest.is_empty() || rest.starts_with('/') => Some(home?.join(rest.trim_start_matches('/'))),
            _ => Some(PathBuf::from(path)),
        })
        .collect()
}

/// The names that no tool may write at any depth.
fn protected_names(settings: &Settings) -> Vec<String> {
    settings.sandbox.protected.clone().unwrap_or_else(protected)
}

/// What tools may read and not write: the running workflow, those agreed to, and the files of declared programs.
fn read_only(settings: &Settings) -> Vec<PathBuf> {
    let words = settings.tools.values().flat_map(|tool| &tool.argv);
    files_among(words, &settings.workspace).chain(settings.held.iter().cloned()).collect()
}

/// Has the tools of a workflow leave alone its own files and those of the workflows that the user agreed to.
pub fn hold(settings: &mut Settings, own: Vec<PathBuf>, workflow: &Workflow) {
    settings.held = own;
    // Without tools nothing is written, and the records need not be read.
    if !named(workflow).is_empty() {
        settings.held.extend(agreed_workflows(settings));
    }
}

/// The files of workflows that the user agreed to, and the folders `workflows` above them: a tool that wrote them would
/// act in the place of their roles. A `write` of `[grant]` that names one of them leaves that one writable.
fn agreed_workflows(settings: &Settings) -> Vec<PathBuf> {
    // Of records that cannot be read nothing counts as agreed; who needs them reports it.
    let records = Records::read(settings.trust.as_deref()).unwrap_or_default();
    let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
    let workspace = real(settings.workspace.clone());
    let writable: Vec<PathBuf> = writable(settings).into_iter().map(real).collect();
    let agreed = records.all_workflows().map(|(file, _)| PathBuf::from(file)).filter(|file| file.is_absolute());
    let mut held = Vec::new();
    // A link on the way could be replaced, and its target rewritten.
    for file in reached(agreed, &writable).into_iter().flat_map(|file| [real(file.clone()), file]) {
        let above = file
            .ancestors()
            .skip(1)
            .filter(|folder| folder.ends_with(workflow::FOLDER) && !workspace.starts_with(real(folder.to_path_buf())));
        let above = above.last().map(Path::to_path_buf);
        let is_of = |granted: &&PathBuf| {
            let mut folders = file.parent().into_iter().chain(above.as_deref());
            !workspace.starts_with(granted) && folders.any(|folder| granted.starts_with(folder))
        };
        let named: Vec<&PathBuf> = writable.iter().filter(is_of).collect();
        // One that cannot be read any more is still not rewritten.
        let sources = workflow::read(file.clone()).map(|loaded| loaded.sources).unwrap_or_default();
        let files = sources.into_keys().map(PathBuf::from).chain([file.clone()]);
        let files = files.chain(above.clone().filter(|_| named.is_empty()));
        held.extend(files.filter(|path| !named.iter().any(|granted| path.starts_with(granted))));
    }
    held
}

/// What no tool may access: this includes the code of hooks, which decide what tools may do, where a tool could write
/// it.
fn hidden_from_tools(settings: &Settings) -> Vec<PathBuf> {
    let Settings { workspace, hooks, .. } = settings;
    let writable = writable(settings);
    let is_writable = |path: &PathBuf| writable.iter().any(|folder| path.starts_with(folder));
    let words = hooks.values().flat_map(|hook| &hook.argv);
    hidden(settings, &[]).into_iter().chain(scripts(words, workspace).filter(is_writable)).collect()
}

fn writable(settings: &Settings) -> Vec<PathBuf> {
    let written = granted_paths(settings, settings.grant.write.as_deref());
    written.iter().map(|path| settings.workspace.join(path)).collect()
}

/// The scripts that words of a command name, each [with what it loads](closed_with).
fn scripts<'w>(words: impl Iterator<Item = &'w String>, workspace: &'w Path) -> impl Iterator<Item = PathBuf> {
    files_among(words, workspace).map(|file| closed_with(file, workspace))
}

/// The path to hide with a script: its folder, from which it loads its other parts, unless that is the workspace.
fn closed_with(file: PathBuf, workspace: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder != workspace && folder.starts_with(workspace) => folder.to_owned(),
        _ => file,
    }
}

/// Servers and hook programs whose code is where tools may write, one sentence each: what they load from beside their
/// script could be replaced.
pub fn code_in_reach(settings: &Settings) -> Vec<String> {
    let Settings { workspace, mcp, hooks, .. } = settings;
    let servers =
        mcp.iter().map(|(name, mcp)| (format!("server {name}"), mcp.command.iter().chain(&mcp.args).collect()));
    let hooks = hooks.iter().map(|(name, hook)| (format!("hook {name}"), hook.argv.iter().collect()));
    let writable = writable(settings);
    let told = |(what, words): (String, Vec<&String>)| {
        let file = files_among(words.into_iter(), workspace).find(|file| {
            closed_with(file.clone(), workspace) == *file && writable.iter().any(|folder| file.starts_with(folder))
        })?;
        let place = format!("{} lies in {}", file.display(), file.parent().unwrap_or(workspace).display());
        Some(format!("{what}: {place}, which tools may write; what it loads from there could be replaced"))
    };
    servers.chain(hooks).filter_map(told).collect()
}

/// The files named by words of a command, relative to the workspace.
fn files_among<'w>(words: impl Iterator<Item = &'w String>, workspace: &'w Path) -> impl Iterator<Item = PathBuf> {
    words.map(move |word| workspace.join(word)).filter(|path| path.is_file())
}

/// What no program and no tool may access: rondo's data, keys, the files that define permissions, and the scripts of
/// servers but `own`.
fn hidden(settings: &Settings, own: &[PathBuf]) -> Vec<PathBuf> {
    let Settings { workspace, .. } = settings;
    let trust = settings.trust.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    // This binary starts programs and servers outside every sandbox, and so do servers in the operator's settings:
    // their files in the workspace could be replaced.
    let this = std::env::current_exe().ok();
    let schemas = settings.tools.values().filter_map(|tool| tool.schema_file().map(PathBuf::from));
    let servers = settings.mcp.values().flat_map(|mcp| mcp.command.iter().chain(&mcp.args));
    let servers = scripts(servers, workspace).filter(|script| !own.contains(script));
    let Settings { file, user_file, secret_file, .. } = settings;
    let fixed = [Some(settings.store.value.clone()), file.clone(), user_file.clone(), secret_file.clone(), trust, this];
    let fixed = fixed.into_iter().flatten();
    let in_workspace = fixed.chain(schemas).chain(servers).chain([workspace.join(rondo_settings::FILE_NAME)]);
    let home = settings.environment.get("HOME");
    let listed = home.into_iter().flat_map(|home| CREDENTIALS.iter().map(|file| Path::new(home).join(file)));
    // Paths without a grant need not be hidden: the less is masked, the more of the system programs keep.
    let granted = [settings.grant.read.as_deref(), settings.grant.write.as_deref()];
    let granted: Vec<PathBuf> = granted.into_iter().flat_map(|list| granted_paths(settings, list)).collect();
    let granted: Vec<PathBuf> = granted.iter().map(|path| workspace.join(path)).chain([workspace.clone()]).collect();
    let home_is_reached = |home: &&String| !reached([PathBuf::from(home)].into_iter(), &granted).is_empty();
    let found = home.filter(home_is_reached).map(|home| key_files(Path::new(home))).unwrap_or_default();
    reached(in_workspace.chain(listed).chain(found), &granted)
}

/// The tools that roles of a workflow and of its children name, with the roles.
pub fn named(workflow: &Workflow) -> BTreeMap<String, Vec<String>> {
    let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, workflow) in workflow.tree() {
        for (name, role) in &workflow.roles {
            for tool in role.kind.tools() {
                named.entry(tool.clone()).or_default().push(format!("{path}{name}"));
            }
        }
    }
    named
}
