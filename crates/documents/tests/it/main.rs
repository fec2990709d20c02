//! Documents and columns of whole recordings and of made-up ones: one binary, so that there is one thing to link.

mod columns;
mod cost;
mod features;
mod naive;
mod outside;
mod profiler;
mod recordings;
mod reserved;
mod wild;
