//! Writes a cassette during a run.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use rondo_protocol::call::{Fault, FaultClass, ModelAnswer, ModelCall, Site};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::object::Head;
use rondo_protocol::{Digest, Value};
use serde::Serialize;

use super::chunks::Chunks;
use super::format::{
    AttemptLine, Count, EndLine, FaultLine, HeadLine, MAX_BYTES, MAX_HEAD_BYTES, MAX_LINE_BYTES, MessageLine,
    TitleLine, VERSION, sealed,
};
use crate::model::Deltas;
use crate::redact::Redactor;

/// What a recording is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    pub workflow: String,
    /// The digest of the thread's start, if known.
    pub start: Option<Digest>,
}

/// Records every attempt. One recorder serves all providers of a run.
///
/// A whole line is written and flushed as soon as an attempt has ended. If that fails, the current answer is still
/// returned, and every further attempt is refused before a provider is asked.
pub struct Recorder {
    state: Mutex<State>,
}

struct State {
    out: Box<dyn Write + Send>,
    bytes: usize,
    heads: BTreeSet<Digest>,
    chains: BTreeSet<Digest>,
    attempts: usize,
    /// Why writing stopped.
    broken: Option<Fault>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// Starts a recording on `out`.
    ///
    /// # Errors
    /// [`Code::RecordingFailed`] when the first line cannot be written.
    pub fn new(title: &Title, out: impl Write + Send + 'static) -> Result<Self, Fault> {
        let mut state = State {
            out: Box::new(out),
            bytes: 0,
            heads: BTreeSet::new(),
            chains: BTreeSet::new(),
            attempts: 0,
            broken: None,
        };
        let Title { workflow, start } = title.clone();
        state.write(&line(&TitleLine { rondo_cassette: VERSION, workflow, start })?)?;
        Ok(Self { state: Mutex::new(state) })
    }

    /// Starts an attempt: the [`Attempt`] receives the stream and passes it to `deltas`. `redactor` removes from the
    /// request what must not be written; the reply is written as it arrives.
    ///
    /// # Errors
    /// [`Code::RecordingFailed`] when writing is no longer possible: the provider must not be asked.
    pub fn attempt<'a>(
        &'a self,
        call: &'a ModelCall,
        redactor: &'a Redactor,
        deltas: &'a dyn Deltas,
    ) -> Result<Attempt<'a>, Fault> {
        self.state().is_whole()?;
        let (begun, chunks) = (Instant::now(), Mutex::default());
        Ok(Attempt { recorder: self, call, redactor, deltas, begun, chunks })
    }

    /// Ends the recording: writes its last line.
    ///
    /// # Errors
    /// [`Code::RecordingFailed`], also when an earlier attempt could not be written.
    pub fn finish(&self) -> Result<(), Fault> {
        let mut state = self.state();
        state.is_whole()?;
        let end = line(&EndLine { end: Count { attempts: state.attempts } })?;
        state.write(&end)?;
        state.broken = Some(failed("it has ended"));
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt in progress. Dropping it before its end leaves nothing in the recording.
pub struct Attempt<'a> {
    recorder: &'a Recorder,
    call: &'a ModelCall,
    redactor: &'a Redactor,
    deltas: &'a dyn Deltas,
    begun: Instant,
    chunks: Mutex<Chunks>,
}

impl Attempt<'_> {
    /// Records the outcome: a reply, or a fault of the provider. Other faults are not attempts at a provider and are
    /// left out. If writing fails, the next attempt is refused.
    pub fn end(self, outcome: &Result<ModelAnswer, Fault>) {
        let Self { recorder, call, redactor, begun, chunks, .. } = self;
        let chunks = chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The state keeps the fault, and the next attempt returns it.
        let _ = recorder.state().add(call, redactor, chunks, begun.elapsed(), outcome);
    }
}

impl Deltas for Attempt<'_> {
    fn text(&self, text: &str) {
        let at_ms = u32::try_from(self.begun.elapsed().as_millis()).unwrap_or(u32::MAX);
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner).push(at_ms, text);
        self.deltas.text(text);
    }

    fn reserve(&self, reply_bytes: usize) -> BoxFuture<'_, ()> {
        self.deltas.reserve(reply_bytes)
    }
}

impl State {
    fn is_whole(&self) -> Result<(), Fault> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Writes an attempt together with the parts of its request that are not written yet, in one write.
    fn add(
        &mut self,
        asked: &ModelCall,
        redactor: &Redactor,
        chunks: Chunks,
        took: Duration,
        outcome: &Result<ModelAnswer, Fault>,
    ) -> Result<(), Fault> {
        self.is_whole()?;
        let (reply, usage, cost_usd, fault) = match outcome {
            Ok(ModelAnswer { reply, usage, cost_usd }) => (Some(reply.clone()), *usage, *cost_usd, None),
            Err(fault) => match FaultLine::of(fault) {
                Some(line) => {
                    let billed = fault.billed.as_deref();
                    (None, billed.map(|billed| billed.usage), billed.and_then(|billed| billed.cost_usd), Some(line))
                }
                None => return Ok(()),
            },
        };
        let mut text = String::new();
        if !self.heads.contains(&asked.head_digest) {
            let head = redacted_head(redactor, &asked.head);
            let redacted = head != *asked.head;
            text = line(&HeadLine { head: Cow::Owned(head), digest: asked.head_digest, redacted })?;
            if text.len() > MAX_HEAD_BYTES {
                return self.give_up(&format!("a request head is longer than {} MiB", MAX_HEAD_BYTES >> 20));
            }
        }
        let links = asked.conversation.links();
        let known = links.iter().rposition(|chain| self.chains.contains(chain)).map_or(0, |last| last + 1);
        let mut after = known.checked_sub(1).and_then(|last| links.get(last)).copied();
        for (message, chain) in asked.conversation.after(known).into_iter().zip(links.iter().skip(known)) {
            let kept = message.with_texts(&|text| redactor.string(text));
            let redacted = kept != *message;
            text.push_str(&line(&MessageLine { message: Cow::Owned(kept), after, chain: *chain, redacted })?);
            after = Some(*chain);
        }
        let Site { role, lane, visit, position, .. } = &asked.site;
        let mut attempt = AttemptLine {
            attempt: asked.attempt,
            role: role.clone(),
            lane: lane.clone(),
            visit: *visit,
            position: *position,
            model: asked.model.clone(),
            head: asked.head_digest,
            chain: links.last().copied(),
            request: asked.request(),
            chunks,
            reply,
            fault,
            usage,
            cost_usd,
            duration_ms: Some(u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
        };
        let mut written = line(&attempt)?;
        if written.len() > MAX_LINE_BYTES {
            // The chunks of a reply are expendable, the reply is not.
            attempt.chunks = Chunks::default();
            written = line(&attempt)?;
        }
        text.push_str(&written);
        if text.lines().any(|line| line.len() > MAX_LINE_BYTES) {
            return self.give_up(&format!("a line would be longer than {} MiB", MAX_LINE_BYTES >> 20));
        }
        self.write(&text)?;
        self.heads.insert(asked.head_digest);
        self.chains.extend(links.iter().skip(known));
        self.attempts += 1;
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_BYTES {
            return self.give_up(&format!("it would be longer than {} MiB", MAX_BYTES >> 20));
        }
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        written.or_else(|error| self.give_up(&error.to_string()))
    }

    fn give_up(&mut self, why: &str) -> Result<(), Fault> {
        let fault = failed(why);
        self.broken = Some(fault.clone());
        Err(fault)
    }
}

fn line<T: Serialize>(object: &T) -> Result<String, Fault> {
    sealed(object).map_err(|error| failed(&error.to_string()))
}

fn failed(why: &str) -> Fault {
    let message = format!("the recording cannot be written: {why}; make room and record again");
    Fault::new(Code::RecordingFailed, FaultClass::Recording, message)
}

fn redacted_head(redactor: &Redactor, head: &Head) -> Head {
    let mut redacted = head.clone();
    let Head { model, parameters, response_format, system, tools } = &mut redacted;
    redactor.string(model);
    let mut given = Value::Object(std::mem::take(&mut parameters.0));
    redactor.value(&mut given);
    if let Value::Object(given) = given {
        parameters.0 = given;
    }
    if let Some(format) = response_format {
        redactor.string(format);
    }
    redactor.string(system);
    for tool in tools {
        redactor.string(&mut tool.name);
        redactor.string(&mut tool.description);
        redactor.string(&mut tool.parameters);
    }
    redacted
}
