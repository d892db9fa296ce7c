use std::borrow::Cow;
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};

use rondo_protocol::call::Effect;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::file::{File, media_type_of};
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{FileCall, PIECE_MIB, Patience, named};
use super::text::{SNIFFED_BYTES, binary};
use super::{Content, Error};
use crate::bound::{begun_character, grouped};
use crate::redact::Redactor;
use crate::sandbox::files::{self, OpenFile, Workspace};

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
        let mut reader = BufReader::with_capacity(64 << 10, file);
        // An error is reported where the lines are read.
        if reader.fill_buf().is_ok_and(|beginning| is_binary(beginning) && is_picture(beginning)) {
            return picture(reader, &path, size_bytes).map(Content::from);
        }
        let mut part = RequestedLines { redactor, path, size_bytes, from, to, ..RequestedLines::default() };
        part.read(reader, patience)?;
        part.shown().map(Content::from)
    }
}

fn is_binary(beginning: &[u8]) -> bool {
    beginning.iter().take(SNIFFED_BYTES).any(|byte| *byte == 0)
}

fn is_picture(beginning: &[u8]) -> bool {
    matches!(media_type_of("", beginning), "image/gif" | "image/jpeg" | "image/png" | "image/webp")
}

fn picture(reader: BufReader<OpenFile>, path: &str, size_bytes: u64) -> Result<File, Error> {
    let mut bytes = Vec::new();
    let fault = |source| files::Error::System { path: path.to_owned(), doing: "read", source };
    reader.take(PICTURE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(fault)?;
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
    path: String,
    size_bytes: u64,
    from: u64,
    to: u64,
    text: String,
    /// The number of the current line, and whether any part of it was read.
    line: u64,
    has_begun: bool,
    /// The current line, as far as it is shown.
    piece: Vec<u8>,
    last_shown: u64,
    /// The bytes used of `SHOWN_MAX_BYTES`.
    used: usize,
    is_full: bool,
    /// The first shown line that is not UTF-8.
    lossy_line: Option<u64>,
    /// The line that was cut, and after how many bytes.
    cut: Option<(u64, usize)>,
    /// Whether there are lines that were not counted.
    has_more: bool,
}

impl RequestedLines {
    fn read(&mut self, mut reader: BufReader<OpenFile>, patience: &Patience) -> Result<(), Error> {
        let mut is_first = true;
        let mut counted: u64 = 0;
        self.line = 1;
        loop {
            patience.check()?;
            let chunk = match reader.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => {
                    return Err(files::Error::System { path: self.path.clone(), doing: "read", source }.into());
                }
            };
            if std::mem::take(&mut is_first) && is_binary(chunk) {
                return Err(binary(&self.path, self.size_bytes));
            }
            let length = chunk.len();
            if length == 0 {
                break;
            }
            if self.is_full || self.line > self.to {
                counted += length as u64;
            }
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                self.take(piece)?;
            }
            reader.consume(length);
            if counted > COUNTED_MAX_BYTES {
                self.has_more = true;
                return Ok(());
            }
        }
        if self.has_begun { self.end_line() } else { Ok(()) }
    }

    /// Takes a line, or a piece of one that is longer than the read buffer.
    fn take(&mut self, piece: &[u8]) -> Result<(), Error> {
        let (piece, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |line| (line, true));
        if (self.from..=self.to).contains(&self.line) && !self.is_full {
            if !self.has_begun {
                self.used += NUMBER_BYTES;
            }
            let room = SHOWN_MAX_BYTES.saturating_sub(self.used);
            let kept = piece.get(..room.min(piece.len())).unwrap_or_default();
            self.piece.extend_from_slice(kept);
            self.used += kept.len();
            if kept.len() < piece.len() || room == 0 {
                self.is_full = true;
                // A line that does not fit at all is left for the next call, unless it is the only one.
                if self.last_shown == 0 {
                    self.cut = Some((self.line, self.piece.len()));
                    self.show_line()?;
                }
                self.piece.clear();
            }
        }
        self.has_begun = true;
        if ends { self.end_line() } else { Ok(()) }
    }

    fn end_line(&mut self) -> Result<(), Error> {
        if (self.from..=self.to).contains(&self.line) && !self.is_full {
            self.show_line()?;
        }
        self.line += 1;
        self.has_begun = false;
        Ok(())
    }

    fn show_line(&mut self) -> Result<(), Error> {
        let line = std::mem::take(&mut self.piece);
        if line.contains(&0) {
            return Err(binary(&self.path, self.size_bytes));
        }
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let text = if self.cut.is_some() {
            // A character split by the cut is not the file's fault.
            let whole = line.len() - begun_character(line);
            let text = String::from_utf8_lossy(line.get(..whole).unwrap_or_default());
            Cow::Owned(self.redactor.beginning(&text))
        } else {
            if std::str::from_utf8(line).is_err() {
                self.lossy_line.get_or_insert(self.line);
            }
            String::from_utf8_lossy(line)
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:>6}\t{text}", self.line);
        self.last_shown = self.line;
        Ok(())
    }

    fn shown(mut self) -> Result<String, Error> {
        let lines = self.line - 1;
        let all = if self.has_more { format!("more than {}", grouped(lines)) } else { grouped(lines) };
        if self.last_shown == 0 {
            if lines == 0 && self.from == 1 {
                return Ok("[the file is empty]\n".to_owned());
            }
            let message = format!("{:?} has {all} lines; there is no line {}", self.path, grouped(self.from));
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
