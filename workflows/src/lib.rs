//! A package without public API. Its tests hold the workflows in the folders beside it: they read without a warning,
//! their scripts answer for them, and their inputs are the documents that stand beside them.
