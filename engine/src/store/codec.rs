//! Value formats. `engine/docs/store-format.md` is their page and golden tests hold them.
//!
//! Laws. The first byte of every value is the version of its form; a form never changes without a new one, and an
//! unknown one is [`Error::Format`] and no guess. Numbers are big-endian. Reading never panics, whatever the bytes.

use std::collections::BTreeMap;

use rondo_protocol::canonical::{self, Value};
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::LanePath;
use rondo_protocol::object::Note;

use super::{Error, Row, Status};

/// The version of every value form that this build writes, and the newest that it reads.
const VERSION: u8 = 1;

/// A stored step before it is verified.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StepValue<'a> {
    /// Its digest.
    pub(super) digest: Digest,
    /// The role's visit in its lane.
    pub(super) visit: u64,
    /// Its canonical bytes.
    pub(super) bytes: &'a [u8],
}

/// What the store has acknowledged so far. Written with every batch that changes it, and beside the database in the
/// anchor, so that a database which lost its end can be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    /// Batches with commits or journal records.
    pub(super) batches: u64,
    /// Steps of all threads.
    pub(super) steps: u64,
    /// SHA-256 over all of them, in order.
    pub(super) chain: [u8; 32],
}

impl Ledger {
    /// The length of its bytes.
    pub(super) const BYTES: usize = 48;

    /// Its bytes without a version.
    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let parts = self.batches.to_be_bytes().into_iter().chain(self.steps.to_be_bytes()).chain(self.chain);
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = part;
        }
        bytes
    }

    /// Reads [`to_bytes`](Self::to_bytes).
    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut fields = Fields { rest: bytes };
        Some(Self { batches: fields.u64()?, steps: fields.u64()?, chain: fields.array()? })
    }
}

/// The value of a step.
pub(super) fn write_step(digest: Digest, visit: u64, bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(41 + bytes.len());
    value.push(VERSION);
    value.extend_from_slice(digest.as_bytes());
    value.extend_from_slice(&visit.to_be_bytes());
    value.extend_from_slice(bytes);
    value
}

/// Reads [`write_step`].
///
/// # Errors
/// [`Error::Format`], [`Error::Damaged`].
pub(super) fn read_step(value: &[u8]) -> Result<StepValue<'_>, Error> {
    let mut fields = fields(value, "step")?;
    let step = (|| Some(StepValue { digest: fields.digest()?, visit: fields.u64()?, bytes: fields.rest }))();
    step.ok_or_else(|| short("step"))
}

/// The value of an object.
pub(super) fn write_object(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(2 + bytes.len());
    value.push(VERSION);
    value.push(kind_code(kind));
    value.extend_from_slice(bytes);
    value
}

/// Reads [`write_object`].
///
/// # Errors
/// [`Error::Format`], [`Error::Damaged`].
pub(super) fn read_object(value: &[u8]) -> Result<(Kind, &[u8]), Error> {
    let mut fields = fields(value, "object")?;
    let code = fields.u8().ok_or_else(|| short("object"))?;
    let kind = Kind::ALL.into_iter().find(|kind| kind_code(*kind) == code);
    let kind = kind.ok_or_else(|| Error::Damaged { what: format!("an object has the unknown kind {code}") })?;
    Ok((kind, fields.rest))
}

/// Written out and not derived from the order of [`Kind::ALL`]: these bytes are on disks.
fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Workflow => 1,
        Kind::Policy => 2,
        Kind::Start => 3,
        Kind::Head => 4,
        Kind::Message => 5,
        Kind::Messages => 6,
        Kind::Request => 7,
        Kind::Transcript => 8,
        Kind::Step => 9,
    }
}

/// The value of a note: JSON without the members that say nothing.
///
/// # Errors
/// [`Error::Malformed`] when a figure in it is not a number.
pub(super) fn write_note(note: &Note) -> Result<Vec<u8>, Error> {
    let malformed = |error| Error::Malformed { what: format!("a note has no canonical form: {error}") };
    let members = match Value::from_serialize(note).map_err(malformed)? {
        Value::Object(members) => members,
        _ => BTreeMap::new(),
    };
    // That something cost nothing is said; of counts, nothing is none.
    let says = |name: &str, value: &Value| match value {
        Value::Null => false,
        Value::Int(0) => name == "cost_usd",
        _ => true,
    };
    let said = members.into_iter().filter(|(name, value)| says(name, value));
    let mut value = vec![VERSION];
    value.extend(canonical::to_bytes(&said.collect::<Value>()).map_err(malformed)?);
    Ok(value)
}

/// Reads [`write_note`].
///
/// # Errors
/// [`Error::Format`], [`Error::Damaged`].
pub(super) fn read_note(value: &[u8]) -> Result<Note, Error> {
    let fields = fields(value, "note")?;
    // A note is not hashed and holds no open values, so that the ordinary reader will do.
    serde_json::from_slice(fields.rest).map_err(|error| Error::Damaged { what: format!("a note is not JSON: {error}") })
}

/// The value of a row.
pub(super) fn write_row(row: &Row) -> Vec<u8> {
    let mut value = Vec::with_capacity(256 + row.checkpoint.len() + row.origin.len());
    value.push(VERSION);
    value.extend_from_slice(&row.version.to_be_bytes());
    value.extend_from_slice(&row.seq.to_be_bytes());
    value.push(status_code(row.status));
    for digest in [row.workflow, row.policy, row.start] {
        value.extend_from_slice(digest.as_bytes());
    }
    push_length(&mut value, row.frontier.len());
    for (lane, digest) in &row.frontier {
        push_length(&mut value, lane.as_str().len());
        value.extend_from_slice(lane.as_str().as_bytes());
        value.extend_from_slice(digest.as_bytes());
    }
    for text in [&row.checkpoint, &row.origin] {
        push_length(&mut value, text.len());
        value.extend_from_slice(text);
    }
    value
}

/// Reads [`write_row`].
///
/// # Errors
/// [`Error::Format`], [`Error::Damaged`].
pub(super) fn read_row(value: &[u8]) -> Result<Row, Error> {
    let mut fields = fields(value, "row")?;
    let row = (|| {
        let (version, seq, status) = (fields.u64()?, fields.u64()?, status_of(fields.u8()?)?);
        let (workflow, policy, start) = (fields.digest()?, fields.digest()?, fields.digest()?);
        let lanes = fields.length()?;
        let mut frontier = BTreeMap::new();
        for _ in 0..lanes {
            let lane = LanePath::new(std::str::from_utf8(fields.text()?).ok()?).ok()?;
            frontier.insert(lane, fields.digest()?);
        }
        let (checkpoint, origin) = (fields.text()?.to_vec(), fields.text()?.to_vec());
        let row = Row { version, frontier, workflow, policy, start, status, seq, checkpoint, origin };
        fields.rest.is_empty().then_some(row)
    })();
    row.ok_or_else(|| short("row"))
}

/// The version and the last step of a row, without the rest of it.
///
/// # Errors
/// [`Error::Format`], [`Error::Damaged`].
pub(super) fn read_row_end(value: &[u8]) -> Result<(u64, u64), Error> {
    let mut fields = fields(value, "row")?;
    (|| Some((fields.u64()?, fields.u64()?)))().ok_or_else(|| short("row"))
}

fn status_code(status: Status) -> u8 {
    match status {
        Status::Running => 1,
        Status::Waiting => 2,
        Status::Stopped => 3,
        Status::Done => 4,
        Status::Failed => 5,
        Status::Cancelled => 6,
    }
}

fn status_of(code: u8) -> Option<Status> {
    Some(match code {
        1 => Status::Running,
        2 => Status::Waiting,
        3 => Status::Stopped,
        4 => Status::Done,
        5 => Status::Failed,
        6 => Status::Cancelled,
        _ => return None,
    })
}

/// The value of a journal record or of a hook: a version and the bytes as they came.
pub(super) fn write_opaque(bytes: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(1 + bytes.len());
    value.push(VERSION);
    value.extend_from_slice(bytes);
    value
}

/// Reads [`write_opaque`].
///
/// # Errors
/// [`Error::Format`], [`Error::Damaged`].
pub(super) fn read_opaque(value: &[u8]) -> Result<&[u8], Error> {
    Ok(fields(value, "value")?.rest)
}

/// The value of the ledger.
pub(super) fn write_ledger(ledger: &Ledger) -> Vec<u8> {
    write_opaque(&ledger.to_bytes())
}

/// Reads [`write_ledger`].
///
/// # Errors
/// [`Error::Format`], [`Error::Damaged`].
pub(super) fn read_ledger(value: &[u8]) -> Result<Ledger, Error> {
    let bytes = read_opaque(value)?.try_into().ok();
    bytes.and_then(Ledger::from_bytes).ok_or_else(|| short("ledger"))
}

/// The value of a visit: the number of its step. It has no version: its key kind is that.
pub(super) fn write_seq(seq: u64) -> Vec<u8> {
    seq.to_be_bytes().to_vec()
}

/// Reads [`write_seq`].
///
/// # Errors
/// [`Error::Damaged`].
pub(super) fn read_seq(value: &[u8]) -> Result<u64, Error> {
    Ok(u64::from_be_bytes(value.try_into().map_err(|_| short("visit"))?))
}

fn push_length(value: &mut Vec<u8>, length: usize) {
    // A commit is limited to far less than this before it is written.
    value.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

fn short(what: &str) -> Error {
    Error::Damaged { what: format!("a stored {what} cannot be read") }
}

/// The fields behind the version byte.
fn fields<'a>(value: &'a [u8], what: &str) -> Result<Fields<'a>, Error> {
    match value.split_first() {
        Some((&VERSION, rest)) => Ok(Fields { rest }),
        Some((version, _)) => Err(Error::Format { found: u32::from(*version), known: u32::from(VERSION) }),
        None => Err(short(what)),
    }
}

/// Bytes that are taken from the front.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn digest(&mut self) -> Option<Digest> {
        self.array().map(Digest)
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_be_bytes(self.array()?)).ok()
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;
    use rondo_protocol::object::{AnsweredBy, Usage};

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    }

    fn row() -> Row {
        Row {
            version: 3,
            frontier: BTreeMap::from([
                (LanePath::trunk(), Digest([1; 32])),
                (LanePath::new("a[0]").unwrap(), Digest([2; 32])),
            ]),
            workflow: Digest([3; 32]),
            policy: Digest([4; 32]),
            start: Digest([5; 32]),
            status: Status::Waiting,
            seq: 2,
            checkpoint: b"{}".to_vec(),
            origin: b"[]".to_vec(),
        }
    }

    fn note() -> Note {
        Note {
            usage: Some(Usage { prompt_tokens: 10, cached_tokens: 4, output_tokens: 2, ..Usage::default() }),
            answered_by: Some(AnsweredBy::Port),
            started_at_ms: 5,
            model_calls: 1,
            ..Note::default()
        }
    }

    #[test]
    fn value_bytes_stay_as_they_are() {
        let ledger = Ledger { batches: 1, steps: 2, chain: [9; 32] };
        let page = [
            ("step", write_step(Digest([7; 32]), 3, b"{}")),
            ("object", write_object(Kind::Head, b"{}")),
            ("row", write_row(&row())),
            ("record", write_opaque(b"{}")),
            ("visit", write_seq(258)),
            ("ledger", write_ledger(&ledger)),
        ]
        .iter()
        .map(|(name, value)| format!("{name}: {}", hex(value)))
        .chain([format!("note: {}", String::from_utf8_lossy(&write_note(&note()).unwrap()).escape_debug())])
        .collect::<Vec<_>>()
        .join("\n");
        insta::assert_snapshot!(page);
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(read_row(&write_row(&row())), Ok(row()));
        assert_eq!(read_row_end(&write_row(&row())), Ok((3, 2)));
        assert_eq!(read_note(&write_note(&note()).unwrap()), Ok(note()));
        for kind in Kind::ALL {
            assert_eq!(read_object(&write_object(kind, b"x")), Ok((kind, &b"x"[..])));
        }
        let ledger = Ledger { batches: u64::MAX, steps: 1, chain: [8; 32] };
        assert_eq!(read_ledger(&write_ledger(&ledger)), Ok(ledger));
    }

    #[test]
    fn an_unknown_version_is_no_guess() {
        let newer = Err(Error::Format { found: 2, known: 1 });
        assert_eq!(read_row(&[2, 0, 0]), newer);
        assert_eq!(read_step(&[2]).map(|_| ()), Err(Error::Format { found: 2, known: 1 }));
        assert_eq!(read_opaque(&[2]).map(|_| ()), Err(Error::Format { found: 2, known: 1 }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_reader_panic(bytes: Vec<u8>) {
            let value = write_opaque(&bytes);
            let _ = (read_row(&value), read_step(&value), read_object(&value), read_note(&value), read_ledger(&value));
            let _ = (read_row(&bytes), read_step(&bytes), read_object(&bytes), read_note(&bytes), read_seq(&bytes));
        }

        #[test]
        fn a_row_that_was_cut_is_damaged(cut in 1..200_usize) {
            let value = write_row(&row());
            let cut = value.len().saturating_sub(cut).max(1);
            let damaged = matches!(read_row(&value[..cut]), Err(Error::Damaged { .. }));
            prop_assert!(damaged);
        }
    }
}
