//! A cassette in memory: its requests, and which attempt answers a call.

use std::collections::BTreeMap;

use rondo_protocol::Digest;
use rondo_protocol::call::{Fault, ModelAnswer, ModelCall, Site};
use rondo_protocol::id::{LanePath, RoleName};
use rondo_protocol::message::Message;
use rondo_protocol::object::Head;

use super::format::AttemptLine;
use crate::model::ResponseFormat;

#[derive(Debug, Clone, PartialEq)]
pub struct Cassette {
    pub(super) name: String,
    pub(super) digest: Digest,
    pub(super) heads: BTreeMap<Digest, Head>,
    /// Every message, by the digest of the chain that ends with it.
    pub(super) messages: BTreeMap<Digest, Link>,
    /// The chains in file order: each follows the chain that it extends.
    pub(super) order: Vec<Digest>,
    /// In file order.
    pub(super) takes: Vec<Take>,
    /// The indices of the takes of each request.
    pub(super) by_request: BTreeMap<Digest, Vec<usize>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Link {
    pub(super) message: Message,
    pub(super) after: Option<Digest>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Take {
    /// The line in the file, from 1.
    pub(super) line: u32,
    /// The attempt as written, without its outcome.
    pub(super) attempt: AttemptLine,
    pub(super) outcome: Result<ModelAnswer, Fault>,
}

impl Take {
    /// Whether it was made at `site`, in any thread.
    pub(super) fn is_at(&self, site: &Site) -> bool {
        self.site() == (&site.role, &site.lane, site.visit, site.position)
    }

    fn site(&self) -> (&RoleName, &LanePath, u64, u32) {
        let AttemptLine { role, lane, visit, position, .. } = &self.attempt;
        (role, lane, *visit, *position)
    }
}

impl Cassette {
    /// The file name, as passed to [`read`](Self::read).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The SHA-256 of the file: equal cassettes give equal answers.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Failed ones count too.
    pub fn attempts(&self) -> usize {
        self.takes.len()
    }

    /// The id of the model that was first asked under this logical name.
    pub fn model(&self, name: &str) -> Option<&str> {
        let take = self.takes.iter().find(|take| take.attempt.model == name)?;
        self.heads.get(&take.attempt.head).map(|head| head.model.as_str())
    }

    /// How the provider was asked to constrain answers under this logical name; `None` if it was never asked.
    pub fn response_format(&self, name: &str) -> Option<ResponseFormat> {
        let heads = self
            .takes
            .iter()
            .filter(|take| take.attempt.model == name)
            .filter_map(|take| self.heads.get(&take.attempt.head));
        ResponseFormat::of_heads(heads.map(|head| head.response_format.as_deref()))
    }

    /// Finds the attempt that answers a call. Among those with its request:
    ///
    /// 1. those of its site (role, lane, visit, position); without any, those of the first site of its role in the file;
    ///    without any of its role, those of the first site;
    /// 2. of these the one with its attempt number, else the first with a higher one: a hook may have failed an attempt
    ///    before it was made. A call beyond the last attempt has no answer.
    pub(super) fn find(&self, call: &ModelCall) -> Option<&Take> {
        let equal = || self.by_request.get(&call.request()).into_iter().flatten().filter_map(|at| self.takes.get(*at));
        let place = equal()
            .find(|take| take.is_at(&call.site))
            .or_else(|| equal().find(|take| take.attempt.role == call.site.role))
            .or_else(|| equal().next())?;
        let of_place = equal().filter(|take| take.site() == place.site());
        of_place.filter(|take| take.attempt.attempt >= call.attempt).min_by_key(|take| take.attempt.attempt)
    }
}
