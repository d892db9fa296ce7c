//! To come.

use crate::attempt::Attempt;

pub fn attempts() -> Vec<Attempt> {
    Vec::new()
}
