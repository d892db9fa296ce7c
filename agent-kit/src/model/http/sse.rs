//! Parses server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>) as they arrive.
//!
//! Laws: the events do not depend on how the bytes are cut into chunks; each byte is read a fixed number of times; at
//! most one event is kept, and lines, events and the whole stream have size limits.

use rondo_protocol::call::Fault;

use crate::model::protocol::{too_large, unreadable};

/// The longest line whose memory is used again for the next.
const MAX_SPARE_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(in crate::model) struct Reader {
    max_bytes: usize,
    max_event_bytes: usize,
    read_bytes: usize,
    line: Vec<u8>,
    /// The last byte was a carriage return, so a line feed belongs to the same line end.
    after_return: bool,
    after_first_line: bool,
    data: Option<String>,
}

impl Reader {
    /// Reads a stream of at most `max_bytes`, with events of at most `max_event_bytes`.
    pub(in crate::model) fn new(max_bytes: usize, max_event_bytes: usize) -> Self {
        Self { max_bytes, max_event_bytes, ..Self::default() }
    }

    /// The bytes that wait for the end of their event.
    pub(in crate::model) fn pending_bytes(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, String::len)
    }

    pub(in crate::model) fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// Parses the next chunk and appends the data of each completed event.
    pub(in crate::model) fn push(&mut self, chunk: &[u8], events: &mut Vec<String>) -> Result<(), Fault> {
        self.read_bytes = self.read_bytes.saturating_add(chunk.len());
        if self.read_bytes > self.max_bytes {
            return Err(too_large(format!("the event stream is longer than {} bytes", self.max_bytes)));
        }
        let mut rest = chunk;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            if self.line.len() + piece.len() > self.max_event_bytes {
                return Err(event_too_long(self.max_event_bytes));
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_return = rest.get(end) == Some(&b'\r');
            rest = rest.get(end + 1..).unwrap_or_default();
            self.end_line(events)?;
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<String>) -> Result<(), Fault> {
        let mut line = std::mem::take(&mut self.line);
        let text =
            std::str::from_utf8(&line).map_err(|_| unreadable("a line of the event stream is not UTF-8".to_owned()))?;
        let is_later = std::mem::replace(&mut self.after_first_line, true);
        let text = if is_later { text } else { text.strip_prefix('\u{feff}').unwrap_or(text) };
        if text.is_empty() {
            events.extend(self.data.take());
        } else if let Some(value) = data_of(text) {
            match &mut self.data {
                Some(data) if data.len() + value.len() >= self.max_event_bytes => {
                    return Err(event_too_long(self.max_event_bytes));
                }
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        line.clear();
        if line.capacity() <= MAX_SPARE_BYTES {
            self.line = line;
        }
        Ok(())
    }
}

fn event_too_long(max_bytes: usize) -> Fault {
    too_large(format!("an event of the stream is longer than {max_bytes} bytes"))
}

/// The value of a `data` line. Comments and other fields are ignored.
fn data_of(line: &str) -> Option<&str> {
    let value = line.strip_prefix("data")?;
    match value.strip_prefix(':') {
        Some(value) => Some(value.strip_prefix(' ').unwrap_or(value)),
        None => value.is_empty().then_some(""),
    }
}

#[cfg(test)]
mod tests;
