//! Trust: consent to the contents of a folder, and who gave it.
//!
//! A folder may be a stranger's. What its settings and its workflows [ask](Ask) for applies only after a person agreed
//! to it. The agreement is kept in a file of the user ([`Records`]), outside every project. A store is the user's own
//! if it carries a [tag](secret) made with a secret of the user. Files that other users could change are refused
//! before they are used ([`owner`]).
//!
//! This module does not use a terminal: `cli` asks the person. `engine/docs/trust.md` describes the consequences for
//! users.

mod ask;
pub mod owner;
mod private_file;
mod records;
pub mod secret;

pub use ask::{Ask, Kind, digest, lasting};
pub use records::{Agreement, Consent, Error, Records, server_key};
