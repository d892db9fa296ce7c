use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, BufRead, BufReader, Read};

use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::file::{File, media_type_of};
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{FileCall, PIECE_MIB, Patience, Timed, named};
use super::text::{SNIFFED_BYTES, binary};
use super::{Content, Error};
use crate::bound::{begun_character, grouped};
use crate::redact::Redactor;
use crate::sandbox::files::{self, Workspace};

/// The maximum bytes of a file that one call shows, with line numbers.
const SHOWN_MAX_BYTES: usize = 256 << 10;
/// How far after the shown lines the remaining lines are counted.
const COUNTED_MAX_BYTES: u64 = 64 << 20;
/// The size of a line besides its text: number, tab, newline.
const NUMBER_BYTES: usize = 8;
/// The maximum bytes of a picture: the largest that the settings take unless they say otherwise.
const PICTURE_MAX_BYTES: u64 = 20 << 20;

/// What [`ReadFile`] takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// The file, relative to the workspace's root.
    path: String,
    /// The first line, counted from 1.
    #[serde(default)]
    from_line: Option<u64>,
    /// The last line.
    #[serde(default)]
    to_line: Option<u64>,
}

impl FileCall for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Reads a text file. Each line is preceded by its number and a tab, which are not \
        part of the file. At most 256 KiB at once: the last line of the result then says which lines were shown and how \
        to read on with `from_line`. A picture (PNG, JPEG, GIF, WebP) is shown as such; other binary files are refused.";
    const ROOM_MIB: u32 = PIECE_MIB;
    const ONLY_READS: bool = true;

    fn effect(&self, workspace: &Workspace) -> Effect {
        Effect::Reads(vec![named(workspace, &self.path)])
    }

    fn run(self, workspace: &Workspace, redactor: Redactor, patience: &Patience) -> Result<Content, Error> {
        let from = self.from_line.unwrap_or(1).max(1);
        let to = self.to_line.unwrap_or(u64::MAX);
        if to < from {
            let message = format!("to_line {to} is before from_line {from}");
            return Err(Error::new(Code::ToolArguments, message));
        }
        let file = workspace.file(&self.path)?;
        let (path, size_bytes) = (file.path().to_owned(), file.stamp().mark.size_bytes);
        let fault = |source| match patience.check() {
            Ok(()) => files::Error::System { path: path.clone(), doing: "read", source }.into(),
            Err(late) => late,
        };
        let mut reader = BufReader::with_capacity(64 << 10, Timed { file, patience });
        let beginning = reader.fill_buf().map_err(fault)?;
        if beginning.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0) {
            if !is_picture(beginning) {
                return Err(binary(&path, size_bytes));
            }
            let mut bytes = Vec::new();
            reader.take(PICTURE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(fault)?;
            return picture(bytes, &path, size_bytes).map(Content::from);
        }
        let mut part = RequestedLines { redactor, from, to, room: SHOWN_MAX_BYTES, ..RequestedLines::default() };
        if !part.read(&mut reader).map_err(fault)? {
            return Err(binary(&path, size_bytes));
        }
        part.shown(&path).map(Content::from)
    }
}

fn is_picture(beginning: &[u8]) -> bool {
    matches!(media_type_of("", beginning), "image/gif" | "image/jpeg" | "image/png" | "image/webp")
}

fn picture(bytes: Vec<u8>, path: &str, size_bytes: u64) -> Result<File, Error> {
    if bytes.len() as u64 > PICTURE_MAX_BYTES {
        let (size, most) = (grouped(size_bytes), grouped(PICTURE_MAX_BYTES));
        let message = format!("{path:?} is a picture of {size} bytes; one of at most {most} can be shown");
        return Err(Error::new(Code::NotText, message));
    }
    Ok(File::new(path.rsplit('/').next().unwrap_or(path), bytes))
}

/// The requested lines of a file, as far as they fit.
#[derive(Default)]
struct RequestedLines {
    /// For a line that is cut.
    redactor: Redactor,
    from: u64,
    to: u64,
    text: String,
    /// How many bytes more can be shown.
    room: usize,
    /// Whether a requested line did not fit.
    is_full: bool,
    /// How many lines were read, shown or not.
    lines: u64,
    last_shown: u64,
    /// The first shown line that is not UTF-8.
    lossy_line: Option<u64>,
    /// The line that was cut, and after how many bytes.
    cut: Option<(u64, usize)>,
    /// Whether there are lines that were not counted.
    has_more: bool,
}

impl RequestedLines {
    /// Shows the requested lines and counts all. False if one of them is not text.
    fn read(&mut self, reader: &mut impl BufRead) -> io::Result<bool> {
        while self.lines + 1 < self.from && reader.skip_until(b'\n')? > 0 {
            self.lines += 1;
        }
        let mut is_begun = false;
        while self.lines < self.to && !self.is_full {
            self.room = self.room.saturating_sub(NUMBER_BYTES);
            let mut line = Vec::new();
            reader.by_ref().take(self.room as u64 + 1).read_until(b'\n', &mut line)?;
            let has_end = line.pop_if(|byte| *byte == b'\n').is_some();
            if line.is_empty() && !has_end {
                return Ok(true);
            }
            self.is_full = self.room == 0 || line.len() > self.room;
            line.truncate(self.room);
            // A line that does not fit at all is left for the next call, unless it is the only one.
            if !self.is_full || self.last_shown == 0 {
                if line.contains(&0) {
                    return Ok(false);
                }
                self.show(&line);
            }
            self.room -= line.len();
            self.lines += 1;
            is_begun = self.is_full && !has_end;
        }
        let mut rest = reader.take(COUNTED_MAX_BYTES);
        if is_begun {
            rest.skip_until(b'\n')?;
        }
        while rest.skip_until(b'\n')? > 0 && rest.limit() > 0 {
            self.lines += 1;
        }
        self.has_more = rest.limit() == 0;
        Ok(true)
    }

    fn show(&mut self, line: &[u8]) {
        let number = self.lines + 1;
        if self.is_full {
            self.cut = Some((number, line.len()));
        } else if std::str::from_utf8(line).is_err() {
            self.lossy_line.get_or_insert(number);
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = if self.is_full {
            // A character split by the cut is not the file's fault.
            let whole = line.len() - begun_character(line);
            Cow::Owned(self.redactor.beginning(&String::from_utf8_lossy(line.get(..whole).unwrap_or_default())))
        } else {
            String::from_utf8_lossy(line)
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{number:>6}\t{text}");
        self.last_shown = number;
    }

    fn shown(mut self, path: &str) -> Result<String, Error> {
        let lines = self.lines;
        let all = if self.has_more { format!("more than {}", grouped(lines)) } else { grouped(lines) };
        if self.last_shown == 0 {
            if lines == 0 && self.from == 1 {
                return Ok("[the file is empty]\n".to_owned());
            }
            let message = format!("{path:?} has {all} lines; there is no line {}", grouped(self.from));
            return Err(Error::new(Code::ToolArguments, message));
        }
        // Writing to a string cannot fail.
        if let Some(line) = self.lossy_line {
            let _ = writeln!(self.text, "[not UTF-8 from line {line} on: bytes that are not are shown as \u{fffd}]");
        }
        if let Some((line, bytes)) = self.cut {
            let kept = grouped(bytes as u64);
            let _ = writeln!(self.text, "[line {line} is cut after {kept} bytes; its rest cannot be shown]");
        }
        let (from, last) = (grouped(self.from), grouped(self.last_shown));
        if self.is_full && (self.last_shown < lines || self.has_more) {
            let next = self.last_shown + 1;
            let _ = writeln!(self.text, "[lines {from}-{last} of {all}; read on with from_line {next}]");
        } else if self.from > 1 || self.last_shown < lines || self.has_more {
            let _ = writeln!(self.text, "[lines {from}-{last} of {all}]");
        }
        Ok(self.text)
    }
}
