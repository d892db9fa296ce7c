//! What recordings keep and give back.
