//! What was agreed to, and by whom: consent to what lies in a folder.
//!
//! A folder may be a stranger's. What its settings and its workflows [ask](Ask) for counts only after a person agreed to
//! it, and the agreement stands in a file of the user ([`Book`]), outside every project. A store is the user's own when
//! it carries a [tag](secret) by a secret of the user. Files that others could change are refused before anything of
//! them counts ([`owner`]).
//!
//! This module knows no terminal: whoever asks a person is in `cli`. `engine/docs/trust.md` says what follows for users.

mod ask;
mod book;
pub mod owner;
pub mod secret;

pub use ask::{Ask, Kind, digest, lasting};
pub use book::{Agreement, Book, Error, Standing, server_key};
