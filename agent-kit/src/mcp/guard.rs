//! What stands between rmcp and a server: bounds on what comes in.
//!
//! rmcp drops an over-long line and what is no message without a word, and starts a task for each notification and each
//! question. Here such a connection ends with a reason, notifications stop at the door, and only so many questions are
//! open at once.

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

/// The most questions of a server that are open at once.
const MAX_QUESTIONS: usize = 64;
/// The most messages that nobody asked for within [`WINDOW`].
const MAX_UNASKED: usize = 20_000;
/// Over which they are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// How many times the longest message may come in without one that can be read.
const MAX_NOISE_MESSAGES: usize = 4;

/// What is known of a connection while it stands and when it ended.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    fault: Arc<OnceLock<String>>,
    /// Bytes since the last message that could be read.
    noise_bytes: Arc<AtomicUsize>,
    questions: Arc<AtomicUsize>,
    tools_changed: Arc<AtomicBool>,
}

impl Watch {
    /// Why the connection was ended, if it was by us.
    pub fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Whether the server has said since the last time that its tools changed.
    pub fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::SeqCst)
    }

    /// Says that nobody has looked at the tools after they changed.
    pub fn set_tools_changed(&self) {
        self.tools_changed.store(true, Ordering::SeqCst);
    }

    fn end(&self, why: String) {
        // The first reason is the reason.
        let _ = self.fault.set(why);
    }
}

/// A reader that fails at a line that is too long.
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
        // What stands before the first line end belongs to the line that was begun.
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

/// A transport that lets in what was asked for, and a bounded number of questions.
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

    /// Counts a message that nobody asked for; false when there are too many.
    fn admit_unasked(&mut self) -> bool {
        if self.window_began.elapsed() > WINDOW {
            (self.window_began, self.unasked) = (Instant::now(), 0);
        }
        self.unasked += 1;
        if self.unasked > MAX_UNASKED {
            self.watch.end(format!("it sent more than {MAX_UNASKED} messages that nobody asked for"));
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
