//! Value formats. They are documented in `engine/docs/store-format.md`, and golden tests check them.
//!
//! Laws. The first byte of every value is the version of its [`Form`]. Each form has its own versions; a reader
//! supports the older ones, and an unknown one is [`Error::Version`]. Numbers are big-endian. Reading never panics on
//! any bytes.

#![expect(missing_docs, reason = "engine/docs/store-format.md says what each key and value holds")]

use rondo_protocol::canonical;
use rondo_protocol::digest::{Digest, Kind};
use rondo_protocol::id::{BatchId, LanePath, RoleName, ThreadId};
use rondo_protocol::object::Note;
use serde::{Deserialize, Serialize};

use super::error::Damage;
use super::keys::{self, Family};
use super::{Base, Error, LaneRow, Parent, Raised, Row, Status};

/// The store format that this build writes and reads.
pub const FORMAT: u32 = 2;
/// The format of stores made before the format was recorded.
pub const FORMAT_UNSAID: u32 = 1;

/// A kind of stored value.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Its name in messages.
    name: &'static str,
    /// The version that this build writes, and the newest that it reads.
    version: u8,
}

const STEP: Form = Form { name: "step", version: 1 };
const OBJECT: Form = Form { name: "object", version: 1 };
const NOTE: Form = Form { name: "note", version: 1 };
const ROW: Form = Form { name: "row", version: 1 };
const LANE: Form = Form { name: "row of a lane", version: 1 };
pub const LIST: Form = Form { name: "list", version: 1 };
pub const BATCH: Form = Form { name: "batch", version: 1 };
pub const BATCH_LINE: Form = Form { name: "line of a batch", version: 1 };
pub const RECORD: Form = Form { name: "journal record", version: 1 };
pub const HOOK: Form = Form { name: "hook's value", version: 1 };
const VISIT: Form = Form { name: "visit", version: 1 };
const LEDGER: Form = Form { name: "ledger", version: 1 };
const IMPORT: Form = Form { name: "mark of an import", version: 1 };

/// A stored step before it is verified.
#[derive(Debug, PartialEq, Eq)]
pub struct StepValue<'a> {
    pub digest: Digest,
    /// The role's visit in its lane.
    pub visit: u64,
    pub bytes: &'a [u8],
}

/// What the store has acknowledged so far. Written with every batch that changes it, and to the anchor beside the
/// database, to detect a database that lost its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Batches with commits, journal records or deletions.
    pub batches: u64,
    /// The number of steps that were ever committed, in all threads.
    pub steps: u64,
    /// The SHA-256 chain over all of them, in order.
    pub chain: [u8; 32],
}

impl Ledger {
    /// Its bytes without a version.
    pub fn to_bytes(self) -> Vec<u8> {
        [&self.batches.to_be_bytes()[..], &self.steps.to_be_bytes(), &self.chain].concat()
    }

    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { batches: fields.u64()?, steps: fields.u64()?, chain: fields.array()? })
    }

    /// Checks that it includes everything promised.
    pub fn reach(self, promised: Self) -> Result<(), Error> {
        if self.batches < promised.batches {
            return Err(self.falls_short_of(promised));
        }
        if self.batches == promised.batches && self.chain != promised.chain {
            let what = "the database is not the one that its anchor was written for".to_owned();
            return Err(Damage::new(what).into());
        }
        Ok(())
    }

    /// The error of a store that holds less than it promised.
    pub fn falls_short_of(self, promised: Self) -> Error {
        let steps = promised.steps.saturating_sub(self.steps);
        let what = if steps > 0 {
            format!("{steps} of {} acknowledged steps are missing", promised.steps)
        } else {
            let writes = promised.batches.saturating_sub(self.batches);
            format!("the last {writes} acknowledged writes are missing, but no step")
        };
        Damage::new(what).into()
    }
}

/// The mark of an import that has not ended: what it brings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportMark {
    /// Random, of this import.
    pub token: [u8; 16],
    pub threads: Vec<ThreadId>,
    pub batches: Vec<BatchId>,
}

pub fn write_import_mark(mark: &ImportMark) -> Vec<u8> {
    let mut value = write_bytes(IMPORT, &mark.token);
    for ids in [
        mark.threads.iter().map(|thread| keys::id_bytes(thread.as_str())).collect::<Vec<_>>(),
        mark.batches.iter().map(|batch| keys::id_bytes(batch.as_str())).collect(),
    ] {
        push_length(&mut value, ids.len());
        value.extend(ids.into_iter().flatten());
    }
    value
}

pub fn read_import_mark(value: &[u8]) -> Result<ImportMark, Error> {
    let mut fields = fields(value, IMPORT)?;
    let mark = (|| {
        let token = fields.array()?;
        let threads = fields.list(Fields::thread)?;
        let batches = fields.list(|fields| fields.array().map(keys::batch_with))?;
        fields.rest.is_empty().then_some(ImportMark { token, threads, batches })
    })();
    mark.ok_or_else(|| short(IMPORT))
}

pub fn write_step(digest: Digest, visit: u64, bytes: &[u8]) -> Vec<u8> {
    [[STEP.version].as_slice(), digest.as_bytes(), &visit.to_be_bytes(), bytes].concat()
}

pub fn read_step(value: &[u8]) -> Result<StepValue<'_>, Error> {
    let mut fields = fields(value, STEP)?;
    let step = (|| Some(StepValue { digest: fields.digest()?, visit: fields.u64()?, bytes: fields.rest }))();
    step.ok_or_else(|| short(STEP))
}

pub fn write_object(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    [[OBJECT.version, kind_code(kind)].as_slice(), bytes].concat()
}

pub fn read_object(value: &[u8]) -> Result<(Kind, &[u8]), Error> {
    let mut fields = fields(value, OBJECT)?;
    let code = fields.u8().ok_or_else(|| short(OBJECT))?;
    let kind = Kind::ALL.into_iter().find(|kind| kind_code(*kind) == code);
    let kind = kind.ok_or_else(|| Damage::new(format!("an object has the unknown kind {code}")))?;
    Ok((kind, fields.rest))
}

/// Not derived from the order of [`Kind::ALL`]: these bytes are on disks.
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
        Kind::File => 10,
    }
}

/// A note as canonical JSON without empty members.
///
/// # Errors
/// [`Error::Malformed`] if a figure in it is not a number.
pub fn note_json(note: &Note) -> Result<Vec<u8>, Error> {
    // A cost of zero is written; a count of zero is not.
    let says = |name: &[u8], value: &[u8]| match value {
        b"null" => false,
        b"0" => name == b"cost_usd",
        _ => true,
    };
    let malformed = |error| Error::Malformed { what: format!("a note has no canonical form: {error}") };
    canonical::to_bytes_of(note, &says).map_err(malformed)
}

/// Encodes a note.
pub fn write_note(note: &Note) -> Result<Vec<u8>, Error> {
    Ok(write_bytes(NOTE, &note_json(note)?))
}

pub fn read_note(value: &[u8]) -> Result<Note, Error> {
    // A note is not hashed and holds no open values, so the ordinary reader suffices.
    serde_json::from_slice(read_bytes(value, NOTE)?)
        .map_err(|error| Damage::new(format!("a note is not JSON: {error}")).into())
}

pub fn write_row(row: &Row) -> Vec<u8> {
    let mut value = Vec::with_capacity(256 + row.checkpoint.len() + row.origin.len());
    value.push(ROW.version);
    value.extend_from_slice(&row.version.to_be_bytes());
    value.extend_from_slice(&row.seq.to_be_bytes());
    value.push(row.status as u8);
    for digest in [row.workflow, row.policy, row.start] {
        value.extend_from_slice(digest.as_bytes());
    }
    push_option(&mut value, row.head.as_ref(), |value, head| value.extend_from_slice(head.as_bytes()));
    push_option(&mut value, row.base.as_ref(), |value, base| {
        value.extend_from_slice(&keys::thread_bytes(&base.thread));
        value.extend_from_slice(&base.seq.to_be_bytes());
    });
    push_option(&mut value, row.parent.as_ref(), |value, parent| {
        value.extend_from_slice(&keys::thread_bytes(&parent.thread));
        push_text(value, parent.role.as_str().as_bytes());
        push_text(value, parent.lane.as_str().as_bytes());
        value.extend_from_slice(&parent.visit.to_be_bytes());
    });
    push_option(&mut value, row.label.as_ref(), |value, label| push_text(value, label.as_bytes()));
    push_length(&mut value, row.tags.len());
    for tag in &row.tags {
        push_text(&mut value, tag.as_bytes());
    }
    push_length(&mut value, row.raised.len());
    for Raised { key, old, new, at_ms } in &row.raised {
        push_text(&mut value, key.as_bytes());
        push_option(&mut value, old.as_ref(), |value, old| push_text(value, old.as_bytes()));
        push_text(&mut value, new.as_bytes());
        value.extend_from_slice(&at_ms.to_be_bytes());
    }
    push_text(&mut value, &row.checkpoint);
    push_text(&mut value, &row.origin);
    value
}

pub fn read_row(value: &[u8]) -> Result<Row, Error> {
    let mut fields = fields(value, ROW)?;
    let row = (|| {
        // In the order in which they are written.
        Some(Row {
            version: fields.u64()?,
            seq: fields.u64()?,
            status: Status::from_repr(fields.u8()?)?,
            workflow: fields.digest()?,
            policy: fields.digest()?,
            start: fields.digest()?,
            head: fields.option(Fields::digest)?,
            base: fields.option(|fields| Some(Base { thread: fields.thread()?, seq: fields.u64()? }))?,
            parent: fields.option(|fields| {
                let (thread, role) = (fields.thread()?, RoleName::new(fields.string()?).ok()?);
                Some(Parent { thread, role, lane: LanePath::new(fields.string()?).ok()?, visit: fields.u64()? })
            })?,
            label: fields.option(|fields| fields.string().map(str::to_owned))?,
            tags: fields.list(|fields| fields.string().map(str::to_owned))?,
            raised: fields.list(|fields| {
                let key = fields.string()?.to_owned();
                let old = fields.option(|fields| fields.string().map(str::to_owned))?;
                Some(Raised { key, old, new: fields.string()?.to_owned(), at_ms: fields.u64()? })
            })?,
            checkpoint: fields.text()?.to_vec(),
            origin: fields.text()?.to_vec(),
        })
    })();
    let row = row.filter(|_| fields.rest.is_empty());
    row.ok_or_else(|| short(ROW))
}

pub fn write_lane(row: &LaneRow) -> Vec<u8> {
    let mut value = Vec::with_capacity(64 + row.fold.len());
    value.push(LANE.version);
    value.extend_from_slice(&row.opened_by.to_be_bytes());
    value.extend_from_slice(&row.index.to_be_bytes());
    push_option(&mut value, row.frontier.as_ref(), |value, frontier| value.extend_from_slice(frontier.as_bytes()));
    value.extend_from_slice(&row.fold);
    value
}

pub fn read_lane(value: &[u8]) -> Result<LaneRow, Error> {
    let mut fields = fields(value, LANE)?;
    let row = (|| {
        let (opened_by, index, frontier) = (fields.u64()?, fields.u64()?, fields.option(Fields::digest)?);
        Some(LaneRow { frontier, fold: fields.rest.to_vec(), opened_by, index })
    })();
    row.ok_or_else(|| short(LANE))
}

/// Reads only the version and the last step of a row.
pub fn read_row_end(value: &[u8]) -> Result<(u64, u64), Error> {
    let mut fields = fields(value, ROW)?;
    (|| Some((fields.u64()?, fields.u64()?)))().ok_or_else(|| short(ROW))
}

/// What an entry belongs to, as far as its key and value tell.
#[derive(Debug)]
pub enum CheckedEntry {
    /// A step of its thread.
    Step(u64),
    /// A step of its thread that opened lanes.
    Opened(u64),
    /// An open lane.
    Lane(LaneRow),
    /// Its thread, or no thread.
    Other,
}

/// Reads the key and the value of an entry that is neither a row, a step nor an object.
pub fn check_entry(family: Family, key: &[u8], value: &[u8]) -> Result<CheckedEntry, Error> {
    let unreadable = || Err(Damage::new("a key cannot be read").at(family, key).into());
    read_entry(key, value).unwrap_or_else(unreadable)
}

/// `None` if the key has another shape than those of its kind.
fn read_entry(key: &[u8], value: &[u8]) -> Option<Result<CheckedEntry, Error>> {
    let opaque = |form| read_bytes(value, form).map(|_| CheckedEntry::Other);
    match key {
        keys::FORMAT => return Some(read_format(value).map(|_| CheckedEntry::Other)),
        keys::LEDGER => return Some(read_ledger(value).map(|_| CheckedEntry::Other)),
        keys::IMPORT => return Some(read_import_mark(value).map(|_| CheckedEntry::Other)),
        _ => {}
    }
    let (kind, rest) = key.split_first_chunk::<2>()?;
    let number = || Some(u64::from_be_bytes(rest.get(16..)?.try_into().ok()?));
    Some(match *kind {
        keys::PLACE => match (keys::placed(key)?, value.is_empty()) {
            ((_, seq), true) => Ok(CheckedEntry::Step(seq)),
            (_, false) => Err(Damage::new("the location of a step has a value").into()),
        },
        keys::VISIT | keys::COMPACTION if keys::is_visit(key) => read_seq(value).map(CheckedEntry::Step),
        keys::NOTE => number().map(|seq| read_note(value).map(|_| CheckedEntry::Step(seq)))?,
        keys::LANE => keys::lane_of_row(key).map(|_| read_lane(value).map(CheckedEntry::Lane))?,
        keys::LIST => number().map(|opened_by| read_bytes(value, LIST).map(|_| CheckedEntry::Opened(opened_by)))?,
        keys::BATCH => keys::batch_of(key).map(|_| opaque(BATCH))?,
        keys::BATCH_LINE => keys::batch_of_line(key).map(|_| opaque(BATCH_LINE))?,
        keys::RECORD => keys::lane_of_record(key).map(|_| opaque(RECORD))?,
        keys::HOOK if keys::is_hook(key) => opaque(HOOK),
        _ => return None,
    })
}

/// Encodes bytes that are opaque here, or have a fixed length.
pub fn write_bytes(form: Form, bytes: &[u8]) -> Vec<u8> {
    [[form.version].as_slice(), bytes].concat()
}

pub fn read_bytes(value: &[u8], form: Form) -> Result<&[u8], Error> {
    Ok(fields(value, form)?.rest)
}

pub fn write_ledger(ledger: &Ledger) -> Vec<u8> {
    write_bytes(LEDGER, &ledger.to_bytes())
}

pub fn read_ledger(value: &[u8]) -> Result<Ledger, Error> {
    let mut fields = fields(value, LEDGER)?;
    Ledger::read(&mut fields).filter(|_| fields.rest.is_empty()).ok_or_else(|| short(LEDGER))
}

/// Encodes the step number of a visit.
pub fn write_seq(seq: u64) -> Vec<u8> {
    write_bytes(VISIT, &seq.to_be_bytes())
}

pub fn read_seq(value: &[u8]) -> Result<u64, Error> {
    fields(value, VISIT)?.u64().ok_or_else(|| short(VISIT))
}

/// Encodes the store's format. This value has no version and never changes its form.
pub fn write_format() -> Vec<u8> {
    FORMAT.to_be_bytes().to_vec()
}

pub fn read_format(value: &[u8]) -> Result<u32, Error> {
    let format = value.try_into().map(u32::from_be_bytes);
    format.map_err(|_| Damage::new("the format of the store cannot be read").into())
}

fn push_length(value: &mut Vec<u8>, length: usize) {
    // A commit is limited to far less than this before it is written.
    value.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

fn push_text(value: &mut Vec<u8>, text: &[u8]) {
    push_length(value, text.len());
    value.extend_from_slice(text);
}

fn push_option<T>(value: &mut Vec<u8>, field: Option<T>, push: impl FnOnce(&mut Vec<u8>, T)) {
    value.push(u8::from(field.is_some()));
    if let Some(field) = field {
        push(value, field);
    }
}

fn short(form: Form) -> Error {
    Damage::new(format!("a stored {} cannot be read", form.name)).into()
}

/// The fields after the version byte.
fn fields(value: &[u8], form: Form) -> Result<Fields<'_>, Error> {
    match value.split_first() {
        Some((version, rest)) if (1..=form.version).contains(version) => Ok(Fields { rest }),
        Some((0, _)) | None => Err(short(form)),
        Some((found, _)) => Err(Error::Version { form: form.name.into(), found: *found, known: form.version }),
    }
}

/// A reader of bytes from the front.
pub struct Fields<'a> {
    pub rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn digest(&mut self) -> Option<Digest> {
        self.array().map(Digest)
    }

    fn thread(&mut self) -> Option<ThreadId> {
        self.array().map(keys::thread)
    }

    fn string(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.text()?).ok()
    }

    /// A field after a presence byte; `None` if it cannot be read.
    #[expect(clippy::option_option, reason = "an absent field is not an unreadable one")]
    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.u8()? {
            0 => Some(None),
            1 => Some(Some(read(self)?)),
            _ => None,
        }
    }

    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.length()?;
        // Each element consumes bytes, so an invalid length ends with them.
        (0..length).map(|_| read(self)).collect()
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
            status: Status::Waiting,
            seq: 2,
            head: Some(Digest([1; 32])),
            workflow: Digest([3; 32]),
            policy: Digest([4; 32]),
            start: Digest([5; 32]),
            base: None,
            parent: None,
            label: None,
            tags: Vec::new(),
            raised: Vec::new(),
            checkpoint: b"{}".to_vec(),
            origin: b"[]".to_vec(),
        }
    }

    fn full_row() -> Row {
        let thread = ThreadId::from_parts(1, 2);
        let (role, lane) = (RoleName::new("writer").unwrap(), LanePath::new("a[0]").unwrap());
        Row {
            base: Some(Base { thread: thread.clone(), seq: 7 }),
            parent: Some(Parent { thread, role, lane, visit: 2 }),
            label: Some("a label".to_owned()),
            tags: vec!["one".to_owned(), "two".to_owned()],
            raised: vec![
                Raised { key: "steps".to_owned(), old: Some("200".to_owned()), new: "400".to_owned(), at_ms: 9 },
                Raised { key: "tokens".to_owned(), old: None, new: "5".to_owned(), at_ms: 10 },
            ],
            ..row()
        }
    }

    fn lane() -> LaneRow {
        LaneRow { frontier: Some(Digest([2; 32])), fold: b"{}".to_vec(), opened_by: 4, index: 1 }
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
            ("full row", write_row(&full_row())),
            ("lane", write_lane(&lane())),
            ("list", write_bytes(LIST, b"[]")),
            ("record", write_bytes(RECORD, b"{}")),
            ("hook", write_bytes(HOOK, b"{}")),
            ("visit", write_seq(258)),
            ("ledger", write_ledger(&ledger)),
            ("mark of an import", write_import_mark(&mark())),
            ("format", write_format()),
        ]
        .iter()
        .map(|(name, value)| format!("{name}: {}", hex(value)))
        .chain([format!("note: {}", String::from_utf8_lossy(&write_note(&note()).unwrap()).escape_debug())])
        .collect::<Vec<_>>()
        .join("\n");
        insta::assert_snapshot!(page);
    }

    fn mark() -> ImportMark {
        let id = "01jd8x3k5mzqw7v2r9t4bcefgh";
        let (threads, batches) = (vec![ThreadId::new(id).unwrap()], vec![BatchId::new(id).unwrap()]);
        ImportMark { token: [7; 16], threads, batches }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for row in [row(), full_row(), Row { head: None, ..row() }] {
            assert_eq!(read_row(&write_row(&row)), Ok(row));
        }
        for lane in [lane(), LaneRow { frontier: None, fold: Vec::new(), ..lane() }] {
            assert_eq!(read_lane(&write_lane(&lane)), Ok(lane));
        }
        assert_eq!(read_seq(&write_seq(258)), Ok(258));
        assert_eq!(read_format(&write_format()), Ok(FORMAT));
        assert_eq!(read_row_end(&write_row(&row())), Ok((3, 2)));
        assert_eq!(read_note(&write_note(&note()).unwrap()), Ok(note()));
        for kind in Kind::ALL {
            assert_eq!(read_object(&write_object(kind, b"x")), Ok((kind, &b"x"[..])));
        }
        let ledger = Ledger { batches: u64::MAX, steps: 1, chain: [8; 32] };
        assert_eq!(read_ledger(&write_ledger(&ledger)), Ok(ledger));
        for mark in [mark(), ImportMark::default()] {
            assert_eq!(read_import_mark(&write_import_mark(&mark)), Ok(mark));
        }
    }

    #[test]
    fn an_unknown_version_is_no_guess() {
        let newer = |form, known| Error::Version { form: std::borrow::Cow::Borrowed(form), found: known + 1, known };
        assert_eq!(read_row(&[ROW.version + 1, 0, 0]), Err(newer("row", ROW.version)));
        assert_eq!(read_step(&[STEP.version + 1]).map(|_| ()), Err(newer("step", STEP.version)));
        assert_eq!(read_bytes(&[RECORD.version + 1], RECORD).map(|_| ()), Err(newer("journal record", RECORD.version)));
        assert_eq!(read_lane(&[LANE.version + 1]), Err(newer("row of a lane", LANE.version)));
        assert!(matches!(read_row(&[0]), Err(Error::Damaged { .. })));
    }

    proptest! {
        #[test]
        fn a_row_that_was_cut_is_damaged(cut in 1..200_usize) {
            let value = write_row(&full_row());
            let cut = value.len().saturating_sub(cut).max(1);
            let damaged = matches!(read_row(&value[..cut]), Err(Error::Damaged { .. }));
            prop_assert!(damaged);
        }
    }
}
