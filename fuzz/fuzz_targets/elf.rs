#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| highwater_fuzz_targets::elf(bytes));
