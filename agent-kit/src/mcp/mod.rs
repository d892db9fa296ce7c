//! Tools of other programs, over the Model Context Protocol (<https://modelcontextprotocol.io/specification>).
//!
//! A [`Server`] is a program that the operator declared, or an address. Its tools appear beside the built-in ones as
//! `server.tool`. rmcp implements the protocol; this module adds the checks that a client must not leave to a server.
//!
//! Laws:
//! - Everything a server sends is bounded: lines, lists, descriptions, answers, questions, unsolicited messages.
//!   Exceeding a bound is a typed error, and memory use stays small.
//! - Every wait ends. A call that takes too long is cancelled at the server.
//! - What a server claims about its tools is not trusted: each counts as [`External`].
//! - A tool is called only while its name, description and schema match its pin ([`Pin`]).
//! - A server gets no model, no files and no person to ask.
//! - A server starts in a private folder, which is deleted afterwards, unless the operator sets another, and loads
//!   neither programs nor modules from there. A server with a sandbox runs in the same sandbox as programs.
//! - A server's process group is dead within 2 s of [`Server`]'s drop, and dies with this process if a
//!   [launcher](ServerProgram::launcher) started it.
//!
//! This module knows nothing of grants, workflows or where pins are stored.
//!
//! [`External`]: rondo_protocol::call::Effect::External

mod catalogue;
mod connection;
mod guard;
mod outcome;
mod pins;
mod process;
mod server;
mod settings;
mod supervisor;
mod tool;

pub use catalogue::{cleaned, is_tool_name};
pub use pins::{Changed, Pin, compare};
pub use server::Server;
pub use settings::{ServerProgram, ServerSettings, Transport};
pub use supervisor::entered;
