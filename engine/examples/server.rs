//! Inside someone's axum application: a request starts a thread, and another one reads how it stands.

use std::net::Ipv4Addr;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use rondo::{Rondo, ThreadId, Value};

type Refusal = (StatusCode, String);

async fn start(State(rondo): State<Rondo>, Json(topic): Json<String>) -> Result<String, Refusal> {
    let new = rondo.workflow("review-loop").map_err(refused)?;
    // The thread continues when the run is dropped.
    let run = new.input("topic", topic).start().await.map_err(refused)?;
    Ok(run.thread().to_string())
}

async fn show(State(rondo): State<Rondo>, Path(thread): Path<String>) -> Result<Json<Value>, Refusal> {
    let thread = ThreadId::new(&thread).map_err(|error| (StatusCode::NOT_FOUND, error.to_string()))?;
    let line = rondo.thread(&thread).await.map_err(refused)?;
    Value::from_serialize(&line).map(Json).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn refused(error: impl std::fmt::Display) -> Refusal {
    (StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rondo = Rondo::builder().in_memory().offline().open().await?;
    let router = Router::new().route("/threads", post(start)).route("/threads/{thread}", get(show)).with_state(rondo);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
