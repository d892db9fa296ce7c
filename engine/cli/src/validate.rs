use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

use rondo::agent_kit::tool::ToolSet;
use rondo::author::lint;
use rondo::core::resolved_roles;
use rondo::host::run_config::Provided;
use rondo::host::untaken::untaken;
use rondo::protocol::diagnostic::{Code, Diagnostic, Severity};
use rondo::protocol::id::RoleName;
use rondo::protocol::workflow::read::FileError;
use rondo::protocol::workflow::{Checked, HookUse, ModelRole, Role, RoleKind, SourceMap, Workflow};
use rondo::settings::{Flags, SCRIPTED_MODEL, Settings, list_price};
use rondo::tell::plural;

use super::consent::by_settings;
use super::known_tools::KnownTools;
use super::{Exit, Failure, Faulty, Output, json, report, settings_files, tooling, workflow, working_folder};

/// The most bytes read from stdin; the reader's own limit is lower and has better messages.
const MAX_STDIN_BYTES: u64 = 16 << 20;

/// Check workflow files and report every fault with its position
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct ValidateArgs {
    /// Workflow files, folders, or names below workflows/ [default: the one here, and all below workflows/]
    files: Vec<String>,
    /// Read one workflow from stdin; a file named beside it gives its name and folder
    #[arg(long)]
    stdin: bool,
    /// Also warn about what keeps providers from caching the beginnings of requests
    #[arg(long)]
    prefix: bool,
}

pub fn validate(args: &ValidateArgs, output: &mut Output) -> Result<Exit, Failure> {
    let here = working_folder()?;
    let (mut checked, mut errors, mut warnings) = (0, 0, 0);
    let read = settings_files::read(&Flags::default()).and_then(|files| Ok((files.in_force()?, files)));
    // If settings cannot be read, prices and tools are not checked; `doctor` reports their faults.
    let read = if args.prefix { Some(read?) } else { read.ok() };
    let tools = read.as_ref().and_then(|(settings, files)| KnownTools::new(files, settings).ok());
    let settings = read.as_ref().map(|(settings, _)| settings);
    let checks = Checks { settings, tools: tools.as_ref(), has_prefixes: args.prefix };
    let mut check = |found| {
        checked += 1;
        count(found, &checks, output, &mut errors, &mut warnings)
    };
    if args.stdin {
        let name = args.files.first().map_or("stdin.yaml", String::as_str);
        check(stdin_text().and_then(|text| workflow::check(PathBuf::from(name), text)))?;
    } else {
        let own = if args.files.is_empty() { workflow::own(&here) } else { Vec::new() };
        args.files.iter().chain(&own).try_for_each(|name| check(workflow::load(name, &here)))?;
    }
    if checked == 0 {
        let message = "there is no workflow here, and none below workflows/";
        return Err(Failure::new(Code::WorkflowNotFound, message).with_hint("`rondo init NAME` makes one"));
    }
    let (files, faults) = (plural(checked, "file"), plural(errors, "error"));
    output.tell(&format!("{files}: {faults}, {}\n", plural(warnings, "warning")));
    Ok(if errors == 0 { Exit::Done } else { Exit::Invalid })
}

struct Checks<'a> {
    settings: Option<&'a Settings>,
    tools: Option<&'a KnownTools>,
    has_prefixes: bool,
}

/// Warns about limits on money that have no effect, because the price of a model is unknown.
fn unpriced(checked: &Checked, settings: &Settings) -> Vec<Diagnostic> {
    let Checked { workflow, policy, places, .. } = checked;
    let mut said = BTreeSet::new();
    let mut found = Vec::new();
    for (role, _, model) in resolved_roles::model_roles(workflow) {
        let own = policy.roles.get(role.as_str());
        let limited = own.filter(|own| own.limits.cost_usd.is_some()).map(|_| format!("roles.{role}.limits"));
        let limited = limited.or_else(|| policy.limits.cost_usd.map(|_| "limits".to_owned()));
        let Some(limits) = limited else { continue };
        let fallback = own.map(|own| own.fallback.as_slice()).unwrap_or_default();
        for name in std::iter::once(&model.model).chain(fallback) {
            let Ok(resolved) = settings.model(name, workflow.models.get(name), Some("")) else { continue };
            // A run fails on an unnamed model before its price matters.
            let id = &resolved.model;
            let is_known = resolved.price.is_some() || id.is_empty() || list_price(id).is_some();
            if is_known || !said.insert((limits.clone(), name.clone())) {
                continue;
            }
            let message =
                format!("the limit on money holds nothing for the model `{name}` ({id}), whose price is not known");
            let fault = places.key_fault(Code::PriceUnknown, &format!("{limits}.cost_usd"), message);
            found.push(fault.with_hint(format!("say it as `price` of [model.{name}] in rondo.toml")));
        }
    }
    found
}

/// Warns about workflows that roles run and for which no model is named, where one is for the workflow that runs them.
fn childless_models(checked: &Checked, settings: &Settings) -> Vec<Diagnostic> {
    let Checked { workflow, places, .. } = checked;
    let is_unnamed = |workflow: &Workflow, name: &str| {
        let resolved = settings.model(name, workflow.models.get(name), Some(""));
        resolved.is_ok_and(|resolved| resolved.model.is_empty())
    };
    if workflow.models.keys().all(|name| is_unnamed(workflow, name)) {
        return Vec::new();
    }
    let of_role = |(role, its): &(RoleName, Role)| {
        let RoleKind::Workflow(child) = &its.kind else { return None };
        let mut asking = resolved_roles::model_roles(&child.workflow);
        let (asks, _, model) = asking.find(|(_, _, model)| is_unnamed(&child.workflow, &model.model))?;
        let (child, name) = (&child.workflow.name, &model.model);
        let message = format!("the workflow {child} names no model for `{name}`, which its role {asks} asks");
        let fault = places.key_fault(Code::ChildModel, &format!("roles.{role}.workflow"), message);
        Some(fault.with_hint("a child does not take the `models` of the workflow that runs it: name one in its file"))
    };
    workflow.roles.iter().filter_map(of_role).collect()
}

/// Faults of patterns that are no expressions, each at the list that holds it. Hooks with patterns change threads, so
/// they are those of the workflow, in the order of its file.
fn unusable_patterns(checked: &Checked) -> Vec<Diagnostic> {
    let Checked { workflow, policy, places, .. } = checked;
    let registry = rondo::registry();
    let hooks = workflow.hooks.iter().filter(|hook| hook.settings.contains_key("patterns"));
    let written = 0..workflow.hooks.len() + policy.hooks.len();
    let written = written.map(|at| format!("hooks[{at}].patterns")).filter(|path| places.has(path));
    let fault = |(hook, path): (&HookUse, String)| {
        let what = registry.kind(&hook.kind)?.patterns(hook).err()?;
        let message = format!("the hook {} cannot be set up: {what}", hook.kind);
        Some(places.key_fault(Code::HookSettings, &path, message))
    };
    hooks.zip(written).filter_map(fault).collect()
}

fn count(
    found: Result<workflow::Loaded, Failure>,
    checks: &Checks<'_>,
    output: &mut Output,
    errors: &mut u64,
    warnings: &mut u64,
) -> Result<(), Failure> {
    let faulty = match found {
        Ok(loaded) => {
            let mut faults = loaded.checked.warnings.clone();
            faults.extend(unusable_patterns(&loaded.checked));
            let Checked { workflow, places, .. } = &loaded.checked;
            if let Some(settings) = checks.settings {
                faults.extend(unpriced(&loaded.checked, settings));
                faults.extend(childless_models(&loaded.checked, settings));
                faults.extend(untaken(&loaded.checked, settings, &Provided::default()));
            }
            faults.extend(checks.tools.map(|tools| tools.missing(workflow, places)).into_iter().flatten());
            if let Some(settings) = checks.settings.filter(|_| checks.has_prefixes) {
                faults.extend(of_prefixes(workflow, places, settings)?);
            }
            faults.sort_by(|a, b| (&a.file, a.span).cmp(&(&b.file, b.span)));
            Faulty { faults, sources: loaded.sources }
        }
        Err(Failure::Diagnostics(faulty)) => faulty,
        Err(failure) => {
            // A file that cannot be read does not hide the faults of the others.
            report::failure(&failure, output);
            *errors += 1;
            return Ok(());
        }
    };
    for fault in &faulty.faults {
        *if fault.severity == Severity::Error { &mut *errors } else { &mut *warnings } += 1;
    }
    report::findings(&faulty, output)
}

/// Warns about prefixes, with the models and tools that the settings give to roles.
fn of_prefixes(workflow: &Workflow, places: &SourceMap, settings: &Settings) -> Result<Vec<Diagnostic>, Failure> {
    let names_tools =
        |workflow: &Workflow| resolved_roles::model_roles(workflow).any(|(_, _, role)| !role.tools.is_empty());
    let has_tools = workflow.tree().iter().any(|(_, workflow)| names_tools(workflow));
    let tools = if has_tools { tooling::local(settings)?.0 } else { ToolSet::default() };
    lint::lint(workflow, places, &|workflow| with_settings(workflow, &tools, settings))
        .map_err(|error| Failure::new(Code::InternalFault, error.to_string()))
}

fn with_settings(workflow: &Workflow, tools: &ToolSet, settings: &Settings) -> BTreeMap<RoleName, lint::ResolvedRoles> {
    let mut toolboxes = resolved_roles::toolboxes(workflow, tools, &by_settings(settings));
    let of_role = |(name, _, role): (&RoleName, _, &ModelRole)| {
        let spec = workflow.models.get(&role.model);
        // No provider is asked, so none needs a key; a model that only a script has does not count.
        let model = settings.model(&role.model, spec, Some(SCRIPTED_MODEL)).map(|resolved| resolved.model);
        let model = model.ok().filter(|model| model != SCRIPTED_MODEL);
        let tools = toolboxes.remove(name).map(|toolbox| toolbox.specs()).unwrap_or_default();
        (name.clone(), lint::ResolvedRoles { model, tools })
    };
    resolved_roles::model_roles(workflow).map(of_role).collect()
}

fn stdin_text() -> Result<String, Failure> {
    let unreadable = |what: String| Failure::new(Code::FileRefused, format!("stdin: {what}"));
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MAX_STDIN_BYTES + 1).read_to_end(&mut bytes);
    if read.map_err(|error| unreadable(error.to_string()))? as u64 > MAX_STDIN_BYTES {
        return Err(unreadable(format!("it is larger than {MAX_STDIN_BYTES} bytes")));
    }
    FileError::text_of(bytes).map_err(|error| unreadable(error.to_string()))
}
