//! One function for each entry that takes bytes from outside.
