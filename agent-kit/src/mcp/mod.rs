//! Tools of other programs, by the Model Context Protocol (<https://modelcontextprotocol.io/specification>).
//!
//! A [`Server`] is a program that the operator declared, or an address. Its tools stand beside the built-in ones as
//! `server.tool`. rmcp speaks the protocol; this module adds what a client must not leave to a server.
//!
//! Laws:
//! - Everything a server says is bounded: a line, a list, a description, an answer, questions back, messages nobody
//!   asked for. What passes a bound is a typed error, and memory stays small.
//! - Every wait ends. A call that takes too long is cancelled at the server.
//! - What a server claims of its tools is not believed: each is taken for [`External`].
//! - A tool is called only while its name, description and schema are those that were pinned ([`Pin`]).
//! - A server is given no model, no files and nobody to ask.
//! - A server starts in a folder of its own, which is gone afterwards, unless the operator says otherwise, and takes
//!   neither programs nor modules from there. One with a sandbox stands in the sandbox that programs have.
//! - A server's process group is dead within 2 s of [`Server`]'s drop, and dies with this process where it was started
//!   by a [launcher](Transport::Stdio::launcher).
//!
//! This module knows nothing of grants, workflows or where pins are kept.
//!
//! [`External`]: rondo_protocol::call::Effect::External

mod catalogue;
mod connection;
mod guard;
mod outcome;
mod pins;
mod process;
mod resources;
mod server;
mod settings;
mod supervisor;
mod tool;

pub use catalogue::LeftOut;
pub use pins::{Changed, Pin, compare};
pub use server::Server;
pub use settings::{ServerSettings, Transport};
pub use supervisor::entered;
