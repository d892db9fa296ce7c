use std::io::BufReader;
use std::path::{Path, PathBuf};

use rondo::protocol::diagnostic::Code;
use rondo::settings::files::open_plain;
use rondo::store::import::Imported;
use rondo::tell::plural;
use rondo::upkeep::{self, Staged};

use super::person::consent_by;
use super::store_access::trusted_store;
use super::{Exit, Failure, Output, StoreArgs, hooks, json, json_line, settings_files};

/// Take exported threads into the store: all that a file holds, verified, or nothing
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct ImportArgs {
    /// A file that `rondo export` wrote, or `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Also cache the answers of the threads as their hooks would have, so that an equal run costs nothing
    #[arg(long)]
    warm: bool,
    /// Consent, for this run, to what `--warm` would learn from threads of others, and to a store that is not known as yours
    #[arg(long)]
    trust: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn import(args: &ImportArgs, output: &mut Output) -> Result<Exit, Failure> {
    let files = settings_files::read(&args.store.flags())?;
    files.refuse_unsafe()?;
    let settings = files.in_force()?;
    let staged = staged(&args.file)?;
    let folder = settings.store.value.clone();
    let store = trusted_store(&settings, consent_by(args.trust, output))?;
    // Whether a store of the user wrote the file.
    let own = staged.is_sealed_by(&store.secret);
    let Imported { threads, present, steps, batches } = super::runtime()?.block_on(upkeep::import(&staged, store))?;
    output.show(&json_line!("import", threads, present, steps, batches, own), || {
        let batches = if batches == 0 { String::new() } else { format!(" and {}", plural(batches, "batch record")) };
        let already =
            if present == 0 { String::new() } else { format!("; {} there already", plural(present, "thread")) };
        let claims = if own || threads == 0 {
            ""
        } else {
            "No store of yours wrote this file: only what the steps prove was taken, and to continue from them asks first.\n"
        };
        format!("imported {} with {}{batches}{already}\n{claims}", plural(threads, "thread"), plural(steps, "step"))
    })?;
    let registry = rondo::registry();
    let mut learned = Ok(());
    for thread in staged.threads.iter().filter(|_| args.warm) {
        // One thread that cannot be learned, such as one whose script is gone, is no reason to leave out the others.
        learned = learned.and(hooks::learn(thread, (&folder, args.trust), &registry, output));
    }
    learned.map(|()| Exit::Done)
}

fn staged(file: &Path) -> Result<Staged, Failure> {
    if file == Path::new("-") {
        return upkeep::stage(std::io::stdin().lock());
    }
    let opened = open_plain(file).map_err(|error| {
        let failure = Failure::new(Code::FileRefused, format!("{}: {error}", file.display()));
        failure.with_hint("`-` reads standard input, which may be a pipe")
    })?;
    upkeep::stage(BufReader::new(opened))
}
