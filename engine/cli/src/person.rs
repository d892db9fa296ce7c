//! Questions to the person at the terminal.

use std::io::IsTerminal as _;

use rondo::tell::tell;

use super::Output;
use super::consent::{Answer, ConsentSource};

const MAX_LINE_BYTES: usize = 4096;

/// The person's answer to a question at the terminal; empty if there is none. Earlier input is discarded.
pub fn answer_to(question: &str) -> String {
    // Before the question is shown, so that an immediate answer is not lost.
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
    tell(question);
    // Byte by byte: input after the line must not be consumed.
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < MAX_LINE_BYTES {
        match rustix::io::read(std::io::stdin(), &mut byte) {
            Ok(1..) if byte != *b"\n" => line.extend(byte),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) => break,
            Err(_) => return String::new(),
        }
    }
    String::from_utf8_lossy(&line).trim().to_owned()
}

pub fn is_attended(output: &Output) -> bool {
    !output.is_json() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks the person at the terminal. Anything but a clear yes counts as no.
pub fn ask(question: &str) -> Answer {
    match answer_to(question).to_lowercase().as_str() {
        "y" | "yes" | "once" => Answer::Once,
        "a" | "always" => Answer::Always,
        "o" | "own" => Answer::Own,
        _ => Answer::No,
    }
}

/// Who agrees to what a run asks for: everybody did with `--trust`, else the person at the terminal if there is one.
pub fn consent_by(trust: bool, output: &Output) -> ConsentSource {
    match (trust, is_attended(output)) {
        (true, _) => ConsentSource::Flag,
        (false, true) => ConsentSource::Person(ask),
        (false, false) => ConsentSource::Nobody,
    }
}
