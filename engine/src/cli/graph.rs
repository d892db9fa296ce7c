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
use crate::graph::{Graph, view};

/// Draw a workflow's graph with its hooks
#[derive(Debug, clap::Args)]
pub struct GraphArgs {
    /// A workflow file, a folder that holds workflow.yaml, or a name below workflows/
    workflow: String,
    /// The language of the picture
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Mermaid,
    Dot,
    Json,
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
    let format = match args.format {
        Format::Mermaid => view::Format::Mermaid,
        Format::Dot => view::Format::Dot,
        Format::Json => view::Format::Json,
    };
    output.write(view::draw(&graph, &children, format).as_bytes())?;
    Ok(Exit::Done)
}

/// Adds the child workflows of a workflow whose path is `around`, and theirs.
fn add_children(
    around: &str,
    workflow: &Workflow,
    policy: &Policy,
    children: &mut Vec<view::Child>,
) -> Result<(), Failure> {
    for (name, role) in &workflow.roles {
        let RoleKind::Workflow(child) = &role.kind else { continue };
        let Some(policy) = policy.children.get(name.as_str()) else { continue };
        let path = format!("{around}{name}");
        let hooks = crate::registry().nodes(&child.workflow, policy, &[]);
        let graph = Graph::new(&child.workflow, policy, hooks);
        let graph = graph.map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
        children.push(view::Child { path: path.clone(), graph });
        add_children(&format!("{path}/"), &child.workflow, policy, children)?;
    }
    Ok(())
}
