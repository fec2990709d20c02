//! Tests of the server and of the page on whole recordings: one binary, so that there is one thing to link.

mod http;
mod page;
