#!/bin/sh
# rustdoc for `cargo test --doc`: makes the pages of a crate, with warnings denied, from the arguments with which it then runs the
# crate's examples. `cargo doc` would have every dependency checked first, which no other check needs.
set -e

pages() {
    for argument; do
        shift
        case $argument in
        --test) ;;
        *) set -- "$@" "$argument" ;;
        esac
    done
    rustdoc "$@" --deny warnings --out-dir "${CARGO_TARGET_DIR:-target}/doc"
}

case " $* " in
*" --test "*) pages "$@" ;;
esac
exec rustdoc "$@"
