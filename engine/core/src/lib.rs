//! The core of the engine: a workflow as a [`graph`], a [`thread`] as a pure machine, and the [`local`] driver that
//! carries out what it decides.
//!
//! Data flows one way: a checked workflow becomes a graph, the machine decides, the driver visits roles through their
//! [`hook`]s, and a [`store`] keeps the steps. What a store, a hook kind, a model or a tool is made of is not known here,
//! nor are settings, terminals and servers.

#![warn(missing_docs)]

// For files of tests that other crates name too.
#[cfg(test)]
extern crate self as rondo_core;

pub mod conversation;
pub mod durable_folder;
pub mod env;
pub mod exit;
pub mod grant;
pub mod graph;
pub mod hook;
pub mod local;
pub mod models;
pub mod resolved_roles;
pub mod secret;
pub mod shown_call;
pub mod store;
pub mod temporary_folder;
pub mod thread;

pub use env::{Env, SystemEnv};
pub use local::{
    Answerer, Cancelled, Ended, Engine, Error, FilledForm, Labels, NewThread, PersonAnswer, PersonSaid, RaisedLimit,
    RaisedLimits, Resumed, RunConfig, Stopper, ThreadHandle,
};
