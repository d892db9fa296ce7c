//! The simulator: losses of power, damage and races that a test cannot wait for.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects by failing"
)]

mod calls;
mod damage;
mod disk;
mod follow;
mod images;
mod injector;
mod ledger;
mod mutants;
mod race;
mod random;
mod repairs;
mod soak;
mod trace;
mod workers;

#[expect(dead_code, reason = "shared with the suite, which uses more of it")]
#[path = "../suite/binary.rs"]
mod binary;

#[expect(dead_code, reason = "shared with the suite, which uses more of it")]
#[path = "../suite/provider/client.rs"]
mod client;

#[expect(dead_code, reason = "shared with the suite, which uses more of it")]
#[path = "../suite/provider/server.rs"]
mod server;
