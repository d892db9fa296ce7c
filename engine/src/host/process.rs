//! What a process has besides its store: its runtime and its working folder.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rondo_protocol::diagnostic::Code;
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;
use crate::tell::size;

/// How many descriptors the runtime needs, at least. It panics where it gets none for signals.
const DESCRIPTORS: usize = 16;

/// How much address space is free, at least, before threads and the database take theirs: most of it is reserved and not
/// used. RocksDB aborts the process where it cannot start a thread, and now and then waits for ever.
const ADDRESS_SPACE_BYTES: usize = 416 << 20;

/// How long an idle thread for blocking work is kept. While there is one, the runtime queues work where the system gives
/// no further thread; without one it panics.
const IDLE_THREAD: Duration = Duration::from_hours(1);

/// The runtime for servers, programs and threads.
pub fn runtime() -> Result<Runtime, Failure> {
    started().map_err(|error| Failure::new(Code::WriteFailed, format!("the process cannot start its threads: {error}")))
}

fn started() -> io::Result<Runtime> {
    Vec::<u8>::new().try_reserve_exact(ADDRESS_SPACE_BYTES).map_err(|_| {
        io::Error::other(format!("it may not use {} of address space (`ulimit -v`)", size(ADDRESS_SPACE_BYTES as u64)))
    })?;
    let tried: io::Result<Vec<File>> = (0..DESCRIPTORS).map(|_| File::open("/dev/null")).collect();
    drop(tried?);
    let runtime = Builder::new_multi_thread().enable_all().thread_keep_alive(IDLE_THREAD).build()?;
    // Whether there is room for the first thread for blocking work, which takes the stack that this one leaves.
    let tried = std::thread::Builder::new().spawn(|| ())?;
    tried.join().map_err(|_| io::Error::other("a thread ended with a fault"))?;
    runtime.block_on(runtime.spawn_blocking(|| ()))?;
    Ok(runtime)
}

pub fn working_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::new(Code::WriteFailed, format!("the working folder: {error}")))
}

/// HTTPS needs one provider of cryptography in the process; a second call finds the first.
pub fn provide_cryptography() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
