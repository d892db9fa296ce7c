use std::net::SocketAddr;

use rondo::cluster::Cluster;
use rondo::tell::tell;
use rondo::worker::Worker;

use super::consent::ConsentSource;
use super::signals::with_signals;
use super::{Exit, Failure, Output, StoreArgs, json, json_line};

/// Drive threads of a Restate cluster
///
/// Workers that share an address share the threads: those of one machine listen at the same port, those of several stand
/// behind one name. Settings, grants, consent and secrets are the worker's own.
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct WorkerArgs {
    /// The cluster, by the address of an ingress; several are tried in turn
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    restate: Vec<String>,
    /// The admin interface of each [default: port 9070 of the same host]
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    admin: Vec<String>,
    /// Where the cluster reaches this worker
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9080")]
    listen: SocketAddr,
    /// What the cluster is told of that address [default: http:// and the address]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// Consent, for this process, to all that the settings, the store and the workflows ask for
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn worker(args: &WorkerArgs, output: &mut Output) -> Result<Exit, Failure> {
    let by = if args.trust { ConsentSource::Flag } else { ConsentSource::Nobody };
    let cluster = Cluster::at(&args.restate, &args.admin)?;
    let rondo = super::rondo(&args.store.flags(), by)?;
    let advertised = args.advertise.clone().unwrap_or_else(|| format!("http://{}", args.listen));
    with_signals(async |signals| {
        let worker = Worker::open(&cluster, &rondo).await?;
        let stop = signals.stop.clone();
        let ready = || {
            if output.is_json() {
                // Whoever reads it may have gone; the worker works on.
                let _ = output.line(&json_line!("working", cluster: cluster.url(), address: &advertised));
            } else {
                tell(&format!("driving threads of {}, reached at {advertised}\nCtrl-C stops\n", cluster.url()));
            }
        };
        worker.serve(args.listen, &advertised, ready, async move { stop.cancelled().await }).await?;
        Ok(Exit::Done)
    })
}
