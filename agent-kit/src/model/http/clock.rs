//! The time limits of a request.

use std::time::Duration;

use rondo_protocol::call::{Fault, FaultClass};
use rondo_protocol::diagnostic::Code;
use tokio::time::Instant;

use super::HttpSettings;

pub(super) struct Clock<'a> {
    provider: &'a str,
    idle_timeout: Duration,
    total_timeout: Duration,
    /// `None` when it is too far away to represent.
    deadline: Option<Instant>,
}

impl<'a> Clock<'a> {
    pub(super) fn new(settings: &'a HttpSettings, time_left: Duration) -> Self {
        let total_timeout = settings.total_timeout.map_or(time_left, |total| total.min(time_left));
        let deadline = Instant::now().checked_add(total_timeout);
        Self { provider: &settings.name, idle_timeout: settings.idle_timeout, total_timeout, deadline }
    }

    /// Waits for `future`, up to the idle timeout and the deadline of the request.
    pub(super) async fn wait<T>(&self, future: impl Future<Output = T>) -> Result<T, Fault> {
        let left = self.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        tokio::time::timeout(left.min(self.idle_timeout), future).await.map_err(|_| {
            let (what, setting) = if left < self.idle_timeout {
                (format!("the request took longer than {:?}", self.total_timeout), "total_timeout")
            } else {
                (format!("the provider sent nothing for {:?}", self.idle_timeout), "idle_timeout")
            };
            let message = format!("{what}; `{setting}` of [provider.{}] sets how long to wait", self.provider);
            Fault::new(Code::ProviderSilent, FaultClass::Timeout, message)
        })
    }

    /// Waits for what is not the provider's. The deadline moves by as long.
    pub(super) async fn pause(&mut self, waiting: impl Future<Output = ()>) {
        let since = Instant::now();
        waiting.await;
        self.deadline = self.deadline.and_then(|deadline| deadline.checked_add(since.elapsed()));
    }
}
