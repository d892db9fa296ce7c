//! Decides the next action of one turn: pure, without a clock, a file or a provider.

use std::sync::Arc;

use rondo_protocol::Digest;
use rondo_protocol::call::{Effect, Fault, FaultClass, ModelAnswer, ReachedLimit, Reply, ToolReply, TurnReply};
use rondo_protocol::diagnostic::Code;
use rondo_protocol::file::File;
use rondo_protocol::id::RoleName;
use rondo_protocol::message::{Conversation, ToolUse};
use rondo_protocol::object::{AnsweredBy, Entry, Finish, Transcript, Usage};

use super::Agent;
use super::uses::{Plan, Planned, Uses};
use crate::answer::{Answer, ContractFault, repair_text};
use crate::conversation;
use crate::effects::{Performed, Sent};
use crate::sandbox::files::ReadEntries;
use crate::tool::cut;

/// The maximum bytes of all replies of one turn, including tool call arguments.
const SAID_IN_ALL_MAX_BYTES: usize = 32 << 20;

/// The maximum bytes of tool results that one turn stores in full; later results are cut to what the model sees.
const STORED_IN_ALL_MAX_BYTES: usize = 16 << 20;

/// The maximum bytes of the files that the tools of one turn return, and their maximum number: about what a provider
/// takes in one request. Later files are left out.
const FILES_IN_ALL_MAX_BYTES: usize = 32 << 20;
const FILES_IN_ALL_MAX: usize = 100;

/// The maximum number of names in the read set of one turn; with more, the turn reports no read set.
const READS_MAX: usize = 20_000;

/// How many characters of an unknown finish reason an error shows.
const FINISH_SHOWN_CHARS: usize = 40;

pub(super) enum Next {
    /// Ask the model with these messages.
    Ask(Arc<Conversation>),
    /// Answer these tool calls, which may run side by side.
    Use(Vec<Planned>),
    /// Nothing: the turn has ended with this reply.
    Done(Box<TurnReply>),
}

pub(super) struct Turn<'a> {
    agent: &'a Agent,
    role: RoleName,
    conversation: Arc<Conversation>,
    /// The conversation without the rewrites of hooks, with the request head that was asked.
    shadow: Option<(Digest, Conversation)>,
    entries: Vec<Entry>,
    uses: Uses,
    stored_bytes: usize,
    /// The number of files stored, and their bytes.
    files: (usize, usize),
    said_bytes: usize,
    answer: Option<(String, Answer)>,
    repairs: u32,
    model_calls: u64,
    tool_calls: u64,
    usage: Option<Usage>,
    cost_usd: Option<f64>,
    last: Option<(Sent, AnsweredBy)>,
    /// The read set of its tool calls; `None` = unknown.
    seen: Option<ReadEntries>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        agent: &'a Agent,
        role: RoleName,
        conversation: Arc<Conversation>,
        shadow: Option<(Digest, Conversation)>,
    ) -> Self {
        Self {
            agent,
            role,
            conversation,
            shadow,
            entries: Vec::new(),
            uses: Uses::default(),
            stored_bytes: 0,
            files: (0, 0),
            said_bytes: 0,
            answer: None,
            repairs: 0,
            model_calls: 0,
            tool_calls: 0,
            usage: None,
            cost_usd: None,
            last: None,
            seen: Some(ReadEntries::default()),
        }
    }

    pub(super) fn next(&mut self) -> Result<Next, Fault> {
        if let Some((text, answer)) = self.answer.take() {
            return Ok(Next::Done(Box::new(self.reply(text, answer))));
        }
        let uses = self.uses.next();
        if !uses.is_empty() {
            return Ok(Next::Use(uses));
        }
        self.model_calls += 1;
        if self.model_calls > self.agent.model_calls {
            return Err(self.limit("model_calls", self.model_calls, self.agent.model_calls));
        }
        Ok(Next::Ask(Arc::clone(&self.conversation)))
    }

    /// The fault of a limit on the calls of a step.
    fn limit(&self, key: &'static str, needed: u64, most: u64) -> Fault {
        #[expect(clippy::cast_precision_loss, reason = "limits are far below what a float cannot hold")]
        let needed = needed as f64;
        let limit = ReachedLimit { key, role: Some(self.role.clone()), is_of_thread: true, needed };
        let message = format!("the step reached its limit of {most} {}", key.replace('_', " "));
        Fault::of_limit(Code::StepLimit, limit, message)
    }

    /// Records a reply of the model. Returns why it is sent back, if it is.
    ///
    /// # Errors
    /// When the answer breaks its contract after the last allowed repair, was withheld, or ended with an unknown finish
    /// reason.
    pub(super) fn replied(&mut self, performed: Performed) -> Result<Option<String>, Fault> {
        let Performed { reply: Reply::Model(ModelAnswer { reply, usage, cost_usd }), answered_by, sent: Some(sent) } =
            performed
        else {
            return Err(mismatched());
        };
        if let Some(usage) = usage {
            *self.usage.get_or_insert_default() += usage;
        }
        if let Some(cost) = cost_usd {
            *self.cost_usd.get_or_insert_default() += cost;
        }
        let asked = self.shadow.as_ref().map(|(head, shadow)| shadow.request(*head)).or(sent.asked);
        let (head, request) = (sent.head, sent.request);
        self.last = Some((sent, answered_by));

        let text = reply.parts.text();
        let tool_calls: Vec<ToolUse> = reply.parts.tool_calls().cloned().collect();
        let asked_bytes: usize = tool_calls.iter().map(|tool| tool.arguments.len()).sum();
        self.said_bytes = self.said_bytes.saturating_add(text.len()).saturating_add(asked_bytes);
        if self.said_bytes > SAID_IN_ALL_MAX_BYTES {
            let most = SAID_IN_ALL_MAX_BYTES >> 20;
            let message = format!("the model said more than {most} MiB in one step");
            return Err(Fault::new(Code::StepLimit, FaultClass::Limit, message));
        }
        match &reply.finish {
            Finish::ContentFilter => {
                let message = "the provider withheld the answer (finish reason content_filter)";
                return Err(Fault::new(Code::AnswerWithheld, FaultClass::Refused, message));
            }
            Finish::Other(word) => {
                let word: String = word.chars().take(FINISH_SHOWN_CHARS).collect();
                let message = format!("the reply ended with `{word}`, which is no known finish reason");
                return Err(Fault::new(Code::ReplyUnreadable, FaultClass::Server, message));
            }
            Finish::Stop | Finish::Length | Finish::ToolCalls => {}
        }
        let is_cut = reply.finish == Finish::Length;
        if !tool_calls.is_empty() {
            self.tool_calls = self.tool_calls.saturating_add(u64::try_from(tool_calls.len()).unwrap_or(u64::MAX));
            if self.tool_calls > self.agent.tool_calls {
                return Err(self.limit("tool_calls", self.tool_calls, self.agent.tool_calls));
            }
            if is_cut {
                // Every call needs an answer, so the refusal goes there; which calls are complete is unknown.
                self.repair(&cut_at_limit())?;
                self.uses.refuse(&tool_calls);
            } else {
                self.uses.take(&tool_calls, &self.agent.tools)?;
            }
            self.say(Entry::Model { asked, head, reply, request });
            return Ok(is_cut.then(|| cut_at_limit().words));
        }
        let fault = match self.agent.contract.parse(&text) {
            _ if is_cut => cut_at_limit(),
            // Calls of tools, of which the provider could read none.
            _ if reply.finish == Finish::ToolCalls => {
                fault_of("its call of a tool could not be read; make the call again, or answer")
            }
            Ok(answer) => {
                self.answer = Some((text.into_owned(), answer));
                self.entries.push(Entry::Model { asked, head, reply, request });
                return Ok(None);
            }
            Err(fault) => fault,
        };
        self.repair(&fault)?;
        self.say(Entry::Model { asked, head, reply, request });
        self.say(Entry::Repair { text: repair_text(&fault) });
        Ok(Some(fault.words))
    }

    /// Counts an answer that is sent back.
    fn repair(&mut self, fault: &ContractFault) -> Result<(), Fault> {
        if self.repairs == self.agent.repairs {
            let message = format!("the answer broke its contract {} times, the last time: {fault}", self.repairs + 1);
            return Err(Fault::new(Code::ContractBroken, FaultClass::Contract, message));
        }
        self.repairs += 1;
        Ok(())
    }

    pub(super) fn used(&mut self, planned: Planned, mut reply: ToolReply) {
        let Planned { tool, plan } = planned;
        self.seen = self.seen.take().and_then(|seen| with_reads(seen, &plan, &mut reply));
        self.uses.went(&plan, reply.failed);
        let (files, left_out) = self.fitting(reply.files);
        let mut text = reply.text;
        if left_out > 0 {
            let most = FILES_IN_ALL_MAX_BYTES >> 20;
            let why = format!("a step keeps {FILES_IN_ALL_MAX} files of tools, of {most} MiB in all");
            text.insert_str(0, &format!("[{left_out} files left out: {why}]\n"));
        }
        if self.stored_bytes.saturating_add(text.len()) > STORED_IN_ALL_MAX_BYTES {
            cut(&mut text, conversation::SHOWN_MAX_BYTES);
        }
        self.stored_bytes = self.stored_bytes.saturating_add(text.len());
        let files = files.iter().map(File::reference).collect();
        let (arguments, id, name) = (tool.arguments, tool.id, tool.name);
        self.say(Entry::Tool { arguments, failed: reply.failed, files, id, name, text });
    }

    /// The files that still fit in the turn, and the number of the others.
    fn fitting(&mut self, files: Vec<File>) -> (Vec<File>, usize) {
        let all = files.len();
        let mut fits = |file: &File| {
            let (count, bytes) = (self.files.0 + 1, self.files.1.saturating_add(file.bytes.len()));
            let fits = count <= FILES_IN_ALL_MAX && bytes <= FILES_IN_ALL_MAX_BYTES;
            if fits {
                self.files = (count, bytes);
            }
            fits
        };
        let kept: Vec<File> = files.into_iter().filter(|file| fits(file)).collect();
        let left_out = all - kept.len();
        (kept, left_out)
    }

    fn say(&mut self, entry: Entry) {
        if let Some(message) = conversation::spoken(&entry) {
            if let Some((_, shadow)) = &mut self.shadow {
                shadow.push(message.clone());
            }
            // The conversation is not shared by now unless a hook kept the call; a copy keeps what the hook saw.
            Arc::make_mut(&mut self.conversation).push(message);
        }
        self.entries.push(entry);
    }

    fn reply(&mut self, text: String, answer: Answer) -> TurnReply {
        let (model, fallback, answered_by) = match self.last.take() {
            Some((sent, by)) => (Some(sent.model), sent.fallback, Some(by)),
            None => (None, None, None),
        };
        TurnReply {
            transcript: Transcript { entries: std::mem::take(&mut self.entries) },
            body: answer.body,
            output: answer.output,
            usage: self.usage,
            cost_usd: self.cost_usd,
            model,
            fallback,
            answered_by,
            seen: self.seen.take().map(ReadEntries::into_seen),
            ..TurnReply::said(answer.status, text)
        }
    }
}

/// Adds the read set of one more call. `None` = the read set of the turn is unknown: the call did more than read,
/// failed, was answered by the loop, which knows the earlier calls, or reports no read set, or something changed
/// between two calls.
fn with_reads(mut seen: ReadEntries, plan: &Plan, reply: &mut ToolReply) -> Option<ReadEntries> {
    let Plan::Call { effect, .. } = plan else { return None };
    if reply.failed {
        return None;
    }
    let looked_at = match effect {
        Effect::Pure => reply.seen.take().unwrap_or_default(),
        Effect::Reads(_) => reply.seen.take()?,
        Effect::Writes(_) | Effect::External => return None,
    };
    for read_entry in looked_at.read_entries {
        if !seen.add(read_entry) || seen.len() > READS_MAX {
            return None;
        }
    }
    Some(seen)
}

/// The fault of a reply that was cut at the output limit.
fn cut_at_limit() -> ContractFault {
    fault_of("it was cut at the output limit; answer again and be shorter")
}

fn fault_of(words: &str) -> ContractFault {
    ContractFault { words: words.to_owned() }
}

/// The fault of a hook that answered a call of one kind with a reply of another.
pub(super) fn mismatched() -> Fault {
    Fault::new(Code::HookFailed, FaultClass::Hook, "a hook answered with a reply of the wrong kind")
}
