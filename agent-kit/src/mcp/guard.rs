//! Bounds on what a server sends, between rmcp and the server.
//!
//! rmcp silently drops over-long lines and invalid messages, and starts a task for each notification and each question.
//! The guard ends such a connection with a reason, drops notifications before rmcp sees them and limits the number of
//! open questions.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, ReadBuf};

use crate::bound;

const MAX_QUESTIONS: usize = 64;
/// The maximum number of unsolicited messages within [`WINDOW`].
const MAX_UNASKED: usize = 20_000;
/// The period over which unsolicited messages are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// The bytes without a readable message that are allowed, as a multiple of the longest message.
const MAX_NOISE_MESSAGES: usize = 4;

/// The observed state of a connection, also after its end.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    fault: Arc<OnceLock<String>>,
    /// Bytes since the last readable message.
    noise_bytes: Arc<AtomicUsize>,
    questions: Arc<AtomicUsize>,
    tools_changed: Arc<AtomicBool>,
}

impl Watch {
    /// Why we ended the connection, if we did.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Whether the server reported a change of its tools since the last check.
    pub fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::SeqCst)
    }

    pub fn set_tools_changed(&self) {
        self.tools_changed.store(true, Ordering::SeqCst);
    }

    fn end(&self, why: String) {
        // Only the first reason counts.
        let _ = self.fault.set(why);
    }
}

/// A reader that fails on a line that is too long.
pub struct Bounded<R> {
    inner: R,
    max_line_bytes: usize,
    line_bytes: usize,
    watch: Watch,
}

impl<R> Bounded<R> {
    pub fn new(inner: R, max_line_bytes: usize, watch: Watch) -> Self {
        Self { inner, max_line_bytes, line_bytes: 0, watch }
    }

    fn count(&mut self, read: &[u8]) -> io::Result<()> {
        let mut lines = read.split(|byte| *byte == b'\n');
        // The bytes before the first line end belong to the current line.
        self.line_bytes += lines.next().map_or(0, <[u8]>::len);
        for line in lines {
            if self.line_bytes > self.max_line_bytes {
                break;
            }
            self.line_bytes = line.len();
        }
        let noise = self.watch.noise_bytes.fetch_add(read.len(), Ordering::SeqCst) + read.len();
        let why = if self.line_bytes > self.max_line_bytes {
            format!("it sent a line longer than {}", bound::bytes(self.max_line_bytes as u64))
        } else if noise > self.max_line_bytes.saturating_mul(MAX_NOISE_MESSAGES) {
            format!("it sent {} without a message in it", bound::bytes(noise as u64))
        } else {
            return Ok(());
        };
        self.watch.end(why);
        Err(io::ErrorKind::InvalidData.into())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Bounded<R> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let poll = Pin::new(&mut this.inner).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = poll {
            this.count(buffer.filled().get(before..).unwrap_or_default())?;
        }
        poll
    }
}

/// A transport that admits answers, and a bounded number of other messages and questions.
pub struct Guarded<T> {
    inner: T,
    watch: Watch,
    window_began: Instant,
    unasked: usize,
}

impl<T> Guarded<T> {
    pub fn new(inner: T, watch: Watch) -> Self {
        Self { inner, watch, window_began: Instant::now(), unasked: 0 }
    }

    /// Counts an unsolicited message; false when there are too many.
    fn admit_unasked(&mut self) -> bool {
        if self.window_began.elapsed() > WINDOW {
            (self.window_began, self.unasked) = (Instant::now(), 0);
        }
        self.unasked += 1;
        if self.unasked > MAX_UNASKED {
            self.watch.end(format!("it sent more than {MAX_UNASKED} unsolicited messages"));
        }
        self.unasked <= MAX_UNASKED
    }

    fn admit_question(&self) -> bool {
        let open = self.watch.questions.fetch_add(1, Ordering::SeqCst) + 1;
        if open > MAX_QUESTIONS {
            self.watch.end(format!("it asked more than {MAX_QUESTIONS} questions without reading an answer"));
        }
        open <= MAX_QUESTIONS
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let is_answer = matches!(item, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_));
        let questions = Arc::clone(&self.watch.questions);
        let sending = self.inner.send(item);
        async move {
            let sent = sending.await;
            if is_answer {
                questions.fetch_sub(1, Ordering::SeqCst);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.inner.receive().await?;
            self.watch.noise_bytes.store(0, Ordering::SeqCst);
            match &message {
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => return Some(message),
                JsonRpcMessage::Request(_) => {
                    return (self.admit_unasked() && self.admit_question()).then_some(message);
                }
                JsonRpcMessage::Notification(notification) => {
                    if let ServerNotification::ToolListChangedNotification(_) = &notification.notification {
                        self.watch.set_tools_changed();
                    }
                    if !self.admit_unasked() {
                        return None;
                    }
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
