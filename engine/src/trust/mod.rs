//! What was agreed to, and by whom: consent to what lies in a folder.
//!
//! A folder may be a stranger's. What its settings and its workflows [ask](Ask) for counts only after a person agreed to
//! it, and the agreement is kept in a file of the user ([`Records`]), outside every project. A store is the user's own when
//! it carries a [tag](secret) by a secret of the user. Files that others could change are refused before anything of
//! them counts ([`owner`]).
//!
//! This module knows no terminal: the question to a person is asked in `cli`. `engine/docs/trust.md` says what follows for users.

mod ask;
pub mod owner;
mod records;
pub mod secret;

pub use ask::{Ask, Kind, digest, lasting};
pub use records::{Agreement, Consent, Error, Records, server_key};
