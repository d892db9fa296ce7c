//! The row of a thread whose own is lost, made again from its steps.

use std::ops::ControlFlow;

use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::ThreadId;
use rondo_protocol::object::Record;

use super::super::keys::{self, Family};
use super::super::tables::Tables as _;
use super::super::{Base, Error, Read as _, Row, Status, chain, codec, references};
use super::{Repair, readable};

impl Repair<'_, '_> {
    /// The row: steps name the start, which names the workflow, and the step where a fork left its base. The policy is
    /// that of another thread of the workflow, or one that fits it. Lost are the label, the tags, raised limits, the
    /// parent and where its answers came from. `None` if no step can be read, or something that a row names is not there.
    pub(super) fn row_of_steps(&mut self, thread: &ThreadId) -> Result<Option<Row>, Error> {
        let (mut first, mut last, mut head) = (None, None, None);
        let read = self.from.range(Family::Steps, keys::steps(thread, 0), &mut |key, value| {
            let Some((seq, step)) = keys::seq(key).zip(codec::read_step(value).ok()) else {
                return Ok(ControlFlow::Break(()));
            };
            let record = Record::from_slice(step.bytes).ok();
            let follows = last.is_none_or(|(before, _): (u64, Digest)| before.checked_add(1) == Some(seq));
            let Some(record) = record.filter(|_| follows) else { return Ok(ControlFlow::Break(())) };
            first.get_or_insert((seq, record.prev().first().copied()));
            let start = match &record {
                Record::Rebind(rebind) => rebind.to,
                Record::Step(_) | Record::Compaction(_) => record.start(),
            };
            last = Some((seq, start));
            if chain::is_of_trunk(&record) {
                head = Some(step.digest);
            }
            Ok(ControlFlow::Continue(()))
        });
        readable(read)?;
        let Some(((first, prev), (seq, start))) = first.zip(last) else { return Ok(None) };
        let base = match (first.saturating_sub(1), prev) {
            (0, _) => None,
            (shared, Some(prev)) => match self.owner(prev, shared)? {
                Some(thread) => Some(Base { thread, seq: shared }),
                None => return Ok(None),
            },
            (_, None) => return Ok(None),
        };
        let bytes = readable(self.from.object(Kind::Start, start))?.flatten();
        let names = bytes.and_then(|bytes| references::of_object(Kind::Start, &bytes).ok()).unwrap_or_default();
        let Some((_, workflow)) = names.into_iter().next() else { return Ok(None) };
        let Some(definition) = readable(self.from.object(Kind::Workflow, workflow))?.flatten() else { return Ok(None) };
        let Some(policy) = self.policy_of(workflow, &definition)? else { return Ok(None) };
        let head = match (head, &base) {
            (None, Some(base)) => readable(self.from.trunk_head(&base.thread, base.seq))?.flatten(),
            (head, _) => head,
        };
        Ok(Some(Row {
            version: seq,
            status: Status::Stopped,
            seq,
            head,
            workflow,
            policy,
            start,
            base,
            parent: None,
            label: None,
            tags: Vec::new(),
            raised: Vec::new(),
            checkpoint: Vec::new(),
            origin: (self.opaque.rebuilt)(thread, &definition, head)?,
        }))
    }

    /// The thread under which a step is stored, among its first `most`.
    fn owner(&self, step: Digest, most: u64) -> Result<Option<ThreadId>, Error> {
        let mut found = None;
        let read = self.from.range(Family::Index, keys::places(step), &mut |key, _| {
            let Some((thread, seq)) = keys::placed(key).filter(|(_, seq)| *seq <= most) else {
                return Ok(ControlFlow::Continue(()));
            };
            // Keys hold the beginning of a digest.
            let value = readable(self.from.get(Family::Steps, &keys::step(&thread, seq)))?.flatten();
            let digest = value.and_then(|value| codec::read_step(&value).ok().map(|stored| stored.digest));
            found = (digest == Some(step)).then_some(thread);
            Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        readable(read)?;
        Ok(found)
    }

    /// Looked for once for each workflow.
    fn policy_of(&mut self, workflow: Digest, definition: &[u8]) -> Result<Option<Digest>, Error> {
        if let Some(known) = self.policies.get(&workflow) {
            return Ok(*known);
        }
        let mut found = None;
        let read = self.from.range(Family::Threads, keys::rows(None), &mut |_, value| {
            found = codec::read_row(value).ok().filter(|row| row.workflow == workflow).map(|row| row.policy).or(found);
            Ok(ControlFlow::Continue(()))
        });
        readable(read)?;
        let read = self.from.range(Family::Objects, keys::objects(), &mut |key, value| {
            if found.is_some() {
                return Ok(ControlFlow::Break(()));
            }
            if let (Some(digest), Ok((Kind::Policy, bytes))) = (keys::object_of(key), codec::read_object(value)) {
                found = (self.opaque.fits)(definition, bytes).then_some(digest);
            }
            Ok(ControlFlow::Continue(()))
        });
        readable(read)?;
        self.policies.insert(workflow, found);
        Ok(found)
    }
}
