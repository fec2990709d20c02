//! The report for people: from its data ([`ReportView`](highwater_documents::ReportView)) to a document, and from
//! that to text or Markdown.

mod card;
mod chart;
mod sections;
mod timeline;

pub(crate) use chart::{bar, columns};
pub(crate) use sections::{Options, category_style, document};
