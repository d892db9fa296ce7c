//! `rondo mcp`: workflows as the tools of an MCP server on standard input and output.

use std::time::Duration;

use rondo_web::access::Token;
use rondo_web::{Server, mcp};

use super::exit::Exit;
use super::failure::Failure;
use super::serve::rondo_for;
use super::signals::Signals;
use super::{StoreArgs, runtime};

/// Offer workflows as tools to an MCP client, on standard input and output
#[derive(Debug, clap::Args)]
pub struct McpArgs {
    /// Answer from the script beside each workflow; no model is asked
    #[arg(long)]
    offline: bool,
    /// Consent, for this process, to all that the settings, the store and the workflows ask for
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn mcp(args: &McpArgs) -> Result<Exit, Failure> {
    let (rondo, settings) = rondo_for(&args.store, args.trust)?;
    let to_open = rondo.store_to_open(&settings)?;
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let signals = Signals::listen()?;
        let host = rondo.open_store(to_open).await?.clone();
        let ending = signals.stop.clone();
        let token = Token::of_this_process()?;
        let durable = host.clone();
        let server = Server::new(rondo, host, settings, token, Vec::new(), ending.clone());
        let outcome = Box::pin(mcp::serve(server.clone(), args.offline, ending)).await;
        // Threads that a client has left can be resumed by the same call.
        server.close().await;
        durable.leave().await;
        outcome
    });
    runtime.shutdown_timeout(Duration::from_millis(200));
    served.map(|()| Exit::Done)
}
