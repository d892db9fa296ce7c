//! The file tools as a role calls them, on real folders.

mod edit;
mod list;
mod patch;
mod read;
mod scene;
mod search;
mod wall;
mod write;
