//! The picture of a workflow's graph, with the hooks that the settings impose and with its child workflows.

use rondo_core::exit::Exit;
use rondo_core::graph::Graph;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::workflow::{HookUse, Policy, RoleKind, Workflow};
use rondo_settings::Settings;

use super::run_config::imposed;
use crate::failure::Failure;
use crate::picture;

pub fn draw(
    (workflow, policy): (&Workflow, &Policy),
    settings: &Settings,
    format: picture::Format,
    hooks: picture::Hooks,
) -> Result<Vec<u8>, Failure> {
    let graph = graph(workflow, policy, &imposed(settings))?;
    let mut children = Vec::new();
    add_children("", workflow, policy, &mut children)?;
    picture::draw(&graph, &children, format, hooks).map_err(|error| {
        Failure::new(Code::TooLarge, error.to_string())
            .with_exit(Exit::Invalid)
            .with_hint("`--format dot` and `--format mermaid` leave the places to other programs, and have no limit")
    })
}

fn graph(workflow: &Workflow, policy: &Policy, imposed: &[HookUse]) -> Result<Graph, Failure> {
    let hooks = crate::registry().nodes(workflow, policy, imposed);
    Graph::new(workflow, policy, hooks).map_err(Failure::internal)
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
        children.push(picture::Child { path: path.clone(), graph: graph(&child.workflow, policy, &[])? });
        add_children(&format!("{path}/"), &child.workflow, policy, children)?;
    }
    Ok(())
}
