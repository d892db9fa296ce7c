//! `rondo graph`: the graph of a workflow with its hooks, as a picture.

use clap::ValueEnum;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::{Policy, RoleKind, Workflow};

use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::settings_files::settings;
use super::{workflow, working_folder};
use crate::config::Flags;
use crate::graph::{Graph, picture};

/// Draw a workflow's graph with its hooks
#[derive(Debug, clap::Args)]
pub struct GraphArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/
    workflow: String,
    /// The language of the picture
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    format: Format,
    /// `badges` names on each role the hooks that its calls pass; `full` draws them as nodes (`json` always does)
    #[arg(long, value_enum, default_value_t = Hooks::Badges)]
    hooks: Hooks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Mermaid,
    Dot,
    Json,
}

impl From<Format> for picture::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Mermaid => Self::Mermaid,
            Format::Dot => Self::Dot,
            Format::Json => Self::Json,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Hooks {
    Badges,
    Full,
}

impl From<Hooks> for picture::Hooks {
    fn from(hooks: Hooks) -> Self {
        match hooks {
            Hooks::Badges => Self::Badges,
            Hooks::Full => Self::Full,
        }
    }
}

pub fn graph(args: &GraphArgs, output: &mut Output) -> Result<Exit, Failure> {
    let loaded = workflow::load(&args.workflow, &working_folder()?)?;
    let checked = &loaded.checked;
    let registry = crate::registry();
    let settings = settings(&Flags::default())?;
    let imposed: Vec<_> = settings.imposed.into_iter().map(|imposed| imposed.hook).collect();
    let hooks = registry.nodes(&checked.workflow, &checked.policy, &imposed);
    let graph = Graph::new(&checked.workflow, &checked.policy, hooks);
    let graph = graph.map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
    let mut children = Vec::new();
    add_children("", &checked.workflow, &checked.policy, &mut children)?;
    output.write(picture::draw(&graph, &children, args.format.into(), args.hooks.into()).as_bytes())?;
    Ok(Exit::Done)
}

/// Adds the child workflows of a workflow whose path is `around`, and theirs.
fn add_children(
    around: &str,
    workflow: &Workflow,
    policy: &Policy,
    children: &mut Vec<picture::Child>,
) -> Result<(), Failure> {
    for (name, role) in &workflow.roles {
        let RoleKind::Workflow(child) = &role.kind else { continue };
        let Some(policy) = policy.children.get(name.as_str()) else { continue };
        let path = format!("{around}{name}");
        let hooks = crate::registry().nodes(&child.workflow, policy, &[]);
        let graph = Graph::new(&child.workflow, policy, hooks);
        let graph = graph.map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
        children.push(picture::Child { path: path.clone(), graph });
        add_children(&format!("{path}/"), &child.workflow, policy, children)?;
    }
    Ok(())
}
