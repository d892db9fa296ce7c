use rondo_web::access::Token;
use rondo_web::{Server, mcp};

use super::runner::{Session, Writing, with_session};
use super::serve::ServerArgs;
use super::{Exit, Failure, Output};

/// Offer workflows as tools to an MCP client, on standard input and output
#[derive(Debug, clap::Args)]
pub struct McpArgs {
    /// Answer from the script beside each workflow; no model is asked
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub fn mcp(args: &McpArgs, _output: &mut Output) -> Result<Exit, Failure> {
    let (rondo, settings) = args.server.rondo()?;
    let to_open = rondo.store_to_open(&settings)?;
    with_session(Writing { rondo, to_open }, async |Session { rondo, host, signals, .. }| {
        let token = Token::of_this_process()?;
        let server = Server::new(rondo, host, settings, token, Vec::new(), signals.stop.clone());
        let outcome = Box::pin(mcp::serve(server.clone(), args.offline, signals.stop)).await;
        // Threads that a client has left can be resumed by the same call.
        server.close().await;
        outcome.map(|()| Exit::Done)
    })
}
