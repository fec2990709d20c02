//! The report for people: from its data ([`ReportView`](highwater_documents::ReportView)) to a document, and from
//! that to text or Markdown.

mod chart;
mod document;
mod sections;
mod timeline;

pub(crate) use chart::columns;
pub(crate) use sections::{Options, document};
