//! Verifies the chain of a thread's steps: every step of a scan is checked.
//!
//! Laws. Sequence numbers have no gap. The digest of each step matches its bytes. A trunk step after a trunk step
//! names exactly that one as its predecessor; every other step names only earlier steps of its thread. A verifier does
//! not read; every store reads through it.

use rondo_protocol::canonical;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{LanePath, RoleName, Status, ThreadId};
use rondo_protocol::object::{EdgeTaken, Observation, Record, RecordKind, Step, digest_of};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::Damage;
use super::keys::{self, Family};
use super::{Error, Row, StepBytes, StoredRecord};

/// Looks up the number of the step of a digest in the thread.
pub type Locate<'a> = dyn Fn(Digest) -> Result<Option<u64>, Error> + 'a;

/// The part of a thread seen so far.
pub struct ChainVerifier<'a> {
    thread: &'a ThreadId,
    next: u64,
    last: Option<Last>,
    place: &'a Locate<'a>,
}

/// The step that the next one follows.
#[derive(Debug, Clone, Copy)]
pub struct Last {
    digest: Digest,
    trunk: bool,
}

impl Last {
    /// As which the record after `record` names it.
    pub fn of(record: &Record, digest: Digest) -> Self {
        Self { digest, trunk: is_of_trunk(record) }
    }
}

impl<'a> ChainVerifier<'a> {
    /// A verifier that starts at `from`, at least 1. If `from` is not the first step, pass the previous one to
    /// [`step`](Self::step) first and start there, so that the first step of the range is checked against its
    /// predecessor too.
    pub fn new(thread: &'a ThreadId, from: u64, place: &'a Locate<'a>) -> Self {
        Self { thread, next: from, last: None, place }
    }

    /// The number of the next step.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Verifies the next step.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is not the next one, does not match its digest, or names other predecessors.
    pub fn step(&mut self, stored: &StepBytes<'_>) -> Result<StoredRecord, Error> {
        let StepBytes { seq, digest, visit, bytes, .. } = *stored;
        if seq != self.next {
            return Err(missing(self.thread, self.next, Family::Steps));
        }
        let record = verified(self.thread, seq, digest, bytes)?;
        if !follows(&record, seq, self.last.as_ref(), self.place)? {
            let what = format!("step {seq} of thread {} does not follow its predecessor", self.thread);
            return Err(Damage::new(what).of_thread(self.thread).into());
        }
        self.last = Some(Last::of(&record, digest));
        self.next = seq.saturating_add(1);
        Ok(StoredRecord { seq, digest, visit, record })
    }

    /// Checks the end of the thread: if its last step is on the trunk, the row names it.
    pub fn end(&self, row: &Row) -> Result<(), Error> {
        match &self.last {
            Some(last) if last.trunk && row.head != Some(last.digest) => {
                let what = format!("the row of thread {} does not end at its last step {}", self.thread, row.seq);
                let key = keys::row(self.thread);
                Err(Damage::new(what).of_thread(self.thread).at(Family::Threads, &key).into())
            }
            _ => Ok(()),
        }
    }
}

/// The error for a record or note that is not there.
pub fn missing(thread: &ThreadId, seq: u64, family: Family) -> Error {
    let (what, key) = match family {
        Family::Notes => ("the note of step", keys::note(thread, seq)),
        _ => ("step", keys::step(thread, seq)),
    };
    Damage::new(format!("{what} {seq} of thread {thread} is missing")).of_thread(thread).at(family, &key).into()
}

/// Whether a record can be step `seq` of a thread in which `last` is the step before it.
pub fn follows(record: &Record, seq: u64, last: Option<&Last>, place: &Locate<'_>) -> Result<bool, Error> {
    let prev = record.prev();
    if seq == 1 {
        return Ok(prev.is_empty());
    }
    if is_of_trunk(record) {
        match last {
            Some(last) if last.trunk => return Ok(*prev == [last.digest]),
            _ if prev.is_empty() => return Ok(false),
            _ => {}
        }
    }
    for named in prev {
        let seen = last.is_some_and(|last| last.digest == *named);
        if !seen && place(*named)?.is_none_or(|place| place >= seq) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a record is in no lane.
pub fn is_of_trunk(record: &Record) -> bool {
    record.lane().is_none_or(LanePath::is_trunk)
}

/// Parses the step with canonical bytes `bytes`, if they match `digest`.
pub fn verified(thread: &ThreadId, seq: u64, digest: Digest, bytes: &[u8]) -> Result<Record, Error> {
    let damaged = |what: &str| {
        Damage::new(format!("step {seq} of thread {thread} {what}")).of_thread(thread).of_object(digest).into()
    };
    if Digest::of_bytes(Kind::Step, bytes) != digest {
        return Err(damaged("is not what its digest says"));
    }
    decode(bytes).map_err(|error| damaged(&format!("cannot be read: {error}")))
}

/// A step for parsing. Only `output` holds numbers, for which the reader matters: it goes through the canonical
/// reader, everything else straight into its field, which is several times faster.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written<'a> {
    answer: String,
    edge: EdgeTaken,
    kind: RecordKind,
    lane: LanePath,
    observations: Vec<Observation>,
    #[serde(borrow)]
    output: &'a RawValue,
    prev: Vec<Digest>,
    role: RoleName,
    start: Digest,
    status: Status,
    transcript: Option<Digest>,
}

fn decode(bytes: &[u8]) -> Result<Record, String> {
    // Keys are sorted, and only a step has one before its kind.
    if bytes.starts_with(b"{\"kind\":") {
        return Record::from_slice(bytes).map_err(|error| error.to_string());
    }
    let written: Written<'_> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let Written { answer, edge, kind, lane, observations, output, prev, role, start, status, transcript } = written;
    if kind != RecordKind::Step {
        return Err("it has the fields of a step and is of another kind".to_owned());
    }
    let output = canonical::parse_canonical(output.get().as_bytes()).map_err(|error| error.to_string())?;
    let step = Step { answer, edge, kind, lane, observations, output, prev, role, start, status, transcript };
    Ok(Record::Step(Box::new(step)))
}

/// Checks the bytes of an object against `digest`.
pub fn verified_object(kind: Kind, digest: Digest, stored: Kind, bytes: &[u8]) -> Result<(), Error> {
    if stored == kind && digest_of(kind, bytes) == Some(digest) {
        return Ok(());
    }
    let what = format!("the object {digest} is not the {} that its digest says", kind.name());
    Err(Damage::new(what).of_object(digest).into())
}

#[cfg(test)]
mod tests {
    use rondo_protocol::Value;

    use super::*;

    #[test]
    fn a_step_is_decoded_as_the_canonical_reader_would() {
        let numbers = "[-18446744073709551615,18446744073709551615,-9223372036854775809,0.1,1e+21]";
        let step = Step {
            answer: "\u{1}\"é\u{1f41a}".to_owned(),
            edge: EdgeTaken {
                files: Vec::new(),
                from: "a".to_owned(),
                prompt: "line\n".to_owned(),
                status: Status::new("ok").ok(),
            },
            kind: RecordKind::Step,
            lane: LanePath::new("a[0]").unwrap(),
            observations: vec![
                Observation::Join { arrived: vec![LanePath::new("a[1]").unwrap()], cancelled: Vec::new() },
                Observation::Limit { code: "RN1201".to_owned() },
            ],
            output: [("n", canonical::parse(numbers.as_bytes()).unwrap())].into_iter().collect::<Value>(),
            prev: vec![Digest([1; 32]), Digest([2; 32])],
            role: RoleName::new("a").unwrap(),
            start: Digest([3; 32]),
            status: Status::new("done").unwrap(),
            transcript: Some(Digest([4; 32])),
        };
        let foreign = canonical::to_bytes(&Step { kind: RecordKind::Rebind, ..step.clone() }).unwrap();
        assert!(decode(&foreign).is_err());
        let bytes = canonical::to_bytes(&step).unwrap();
        assert_eq!(decode(&bytes), Ok(Record::Step(Box::new(step))));
        assert_eq!(decode(&bytes).ok(), Record::from_slice(&bytes).ok());
        for broken in ["{}", "null", "", "{\"answer\":\"\",\"answer\":\"\"}"] {
            assert!(decode(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
