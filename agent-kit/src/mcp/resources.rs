//! The list of a server's resources.

use rmcp::RoleClient;
use rmcp::model::{PaginatedRequestParams, Resource};
use rmcp::service::{Peer, ServiceError};

use super::catalogue::MAX_PAGES;
use super::outcome::Lines;
use crate::bound;
use crate::redact::Redactor;

/// The tool that lists resources, unless the server has a tool of this name.
pub const LIST: &str = "list_resources";
/// The tool that reads a resource, unless the server has a tool of this name.
pub const READ: &str = "read_resource";

const MAX_RESOURCES: usize = 1000;

pub async fn pages(peer: &Peer<RoleClient>, redactor: &Redactor) -> Result<String, ServiceError> {
    let mut lines = Lines::new(redactor);
    let (mut listed, mut cursor) = (0, None);
    for _ in 0..MAX_PAGES {
        let page = peer.list_resources(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
        for resource in page.resources.iter().take(MAX_RESOURCES - listed) {
            lines.add(&line(resource, redactor));
            listed += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() || listed == MAX_RESOURCES {
            break;
        }
    }
    if cursor.is_some() || listed == MAX_RESOURCES {
        lines.add(&format!("[cut here: {listed} are listed, there may be more]"));
    } else if listed == 0 {
        lines.add("[there are none]");
    }
    Ok(lines.finish())
}

fn line(resource: &Resource, redactor: &Redactor) -> String {
    let shown = |text: &str, max_chars| bound::line(&redactor.text(text), max_chars);
    let kind = resource.mime_type.as_deref().unwrap_or("-");
    format!("{} {} {}", shown(&resource.uri, 500), shown(kind, 100), shown(&resource.name, 200))
}
