//! Parses server-sent events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>) as they arrive.
//!
//! Laws: the events do not depend on how the bytes are cut into chunks; each byte is read a fixed number of times; at
//! most one event is kept, and lines, events and the whole stream have size limits.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::model) enum Error {
    #[error("an event of the stream is longer than {0} bytes")]
    EventTooLong(usize),
    #[error("the event stream is longer than {0} bytes")]
    TooLong(usize),
    #[error("a line of the event stream is not UTF-8")]
    NotUtf8,
}

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
    pub(in crate::model) fn push(&mut self, chunk: &[u8], events: &mut Vec<String>) -> Result<(), Error> {
        self.read_bytes = self.read_bytes.saturating_add(chunk.len());
        if self.read_bytes > self.max_bytes {
            return Err(Error::TooLong(self.max_bytes));
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
                return Err(Error::EventTooLong(self.max_event_bytes));
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_return = rest.get(end) == Some(&b'\r');
            rest = rest.get(end + 1..).unwrap_or_default();
            self.end_line(events)?;
        }
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<String>) -> Result<(), Error> {
        let mut line = std::mem::take(&mut self.line);
        let text = std::str::from_utf8(&line).map_err(|_| Error::NotUtf8)?;
        let is_later = std::mem::replace(&mut self.after_first_line, true);
        let text = if is_later { text } else { text.strip_prefix('\u{feff}').unwrap_or(text) };
        if text.is_empty() {
            events.extend(self.data.take());
        } else if let Some(value) = data_of(text) {
            match &mut self.data {
                Some(data) if data.len() + value.len() >= self.max_event_bytes => {
                    return Err(Error::EventTooLong(self.max_event_bytes));
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

/// The value of a `data` line. Comments and other fields are ignored.
fn data_of(line: &str) -> Option<&str> {
    let value = line.strip_prefix("data")?;
    match value.strip_prefix(':') {
        Some(value) => Some(value.strip_prefix(' ').unwrap_or(value)),
        None => value.is_empty().then_some(""),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[&[u8]]) -> Result<Vec<String>, Error> {
        let mut reader = Reader::new(1 << 23, 1 << 20);
        let mut events = Vec::new();
        for chunk in chunks {
            reader.push(chunk, &mut events)?;
        }
        Ok(events)
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        for (text, wanted) in [
            ("data: a\n\ndata:b\n\n", vec!["a", "b"]),
            ("data: a\r\ndata: b\r\n\r\n", vec!["a\nb"]),
            ("data: a\r\rdata: b\r\r", vec!["a", "b"]),
            (": comment\nevent: x\nid: 1\nretry: 5\ndata:  a\n\n", vec![" a"]),
            ("\u{feff}data: a\n\n", vec!["a"]),
            ("data\n\ndata:\n\n", vec!["", ""]),
            ("database: a\n\n\n\n", vec![]),
            ("data: never dispatched\n", vec![]),
            ("data: never dispatched", vec![]),
        ] {
            assert_eq!(read(&[text.as_bytes()]).unwrap(), wanted, "{text:?}");
        }
    }

    #[test]
    fn nothing_may_be_endless() {
        let mut reader = Reader::new(3 << 20, 1 << 20);
        let chunk = vec![b'x'; 1 << 16];
        let mut pushed = 0;
        let error = loop {
            match reader.push(&chunk, &mut Vec::new()) {
                Ok(()) => pushed += chunk.len(),
                Err(error) => break error,
            }
        };
        assert_eq!((error, pushed), (Error::EventTooLong(1 << 20), 1 << 20));
        let mut reader = Reader::new(100, 100);
        assert_eq!(reader.push(&[b'\n'; 101], &mut Vec::new()), Err(Error::TooLong(100)));
        assert_eq!(read(&[b"data: \xff\n"]), Err(Error::NotUtf8));
        let line = format!("data: {}\n", "x".repeat(1 << 19));
        assert_eq!(read(&[line.as_bytes(), line.as_bytes()]), Err(Error::EventTooLong(1 << 20)));
    }

    fn stream() -> impl Strategy<Value = String> {
        let line_end = prop::sample::select(vec!["\n", "\r\n", "\r"]);
        let line = prop_oneof!["data: [^\r\n]{0,8}", "data:é😀", ":[a-z]{0,3}", "event: x", "", "", any::<String>()];
        prop::collection::vec((line, line_end), 0..20)
            .prop_map(|lines| lines.into_iter().map(|(line, end)| line + end).collect())
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_the_chunks(text in stream(), cuts in prop::collection::vec(0..1000_usize, 0..20)) {
            let bytes = text.as_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let chunks: Vec<&[u8]> = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&chunks), read(&[bytes]));
        }
    }
}
