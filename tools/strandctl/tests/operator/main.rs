//! The binary as an operator runs it, against a tiny cluster in memory. Each module is named by the promise it keeps.
#![allow(clippy::unwrap_used)] // Also in the helpers of tests a failure is a panic.

mod groups_are_operated;
mod leaders_are_followed;
mod lines_come_back_as_records;
mod logs_on_disk;
mod refusals_say_why;
mod shards_are_failed;
mod support;
