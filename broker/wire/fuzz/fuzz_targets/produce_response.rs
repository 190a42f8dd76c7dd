#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| strandline_wire::fuzz_entries::produce_response(bytes));
