//! Batches: what became of their lines. They are started and resumed in a terminal.

use axum::extract::State;
use rondo::host::batch::{Batch, find_batch};
use rondo::views::batches::{BatchLine, LineView, batch_line, lines};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Server;
use super::body::Json;
use super::params::{Path, Query, limit};
use super::problem::Problem;

/// How many lines a page has unless the client asks for another number, and at most.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

#[derive(Debug, Serialize, JsonSchema)]
pub struct BatchList {
    /// Newest first.
    batches: Vec<BatchLine>,
}

pub async fn list(State(server): State<Server>) -> Result<Json<BatchList>, Problem> {
    server
        .json(|server, store| {
            let driven = server.host.driven();
            let mut batches = Vec::new();
            for id in store.batches(None, usize::MAX)?.into_iter().rev() {
                // One that was deleted meanwhile is none.
                if let Some(batch) = Batch::read(store, &id)? {
                    batches.push(batch_line(store, &driven, &id, batch)?);
                }
            }
            Ok(BatchList { batches })
        })
        .await
}

/// Which lines of a batch are wanted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinesQuery {
    /// The line after which the list begins.
    after: u32,
    /// How many lines it has at most.
    limit: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BatchView {
    batch: BatchLine,
    rows: Vec<LineView>,
}

pub async fn one(
    State(server): State<Server>,
    Path(word): Path<String>,
    query: Query<LinesQuery>,
) -> Result<Json<BatchView>, Problem> {
    let limit = limit(query.0.limit, PAGE, MAX_PAGE)?;
    server
        .json(move |server, store| {
            let driven = server.host.driven();
            let (id, batch) = find_batch(store, &word)?;
            let rows = lines(store, &driven, (&id, query.0.after.saturating_add(1)), limit)?;
            Ok(BatchView { batch: batch_line(store, &driven, &id, batch)?, rows })
        })
        .await
}
