//! The calculator of `highwater estimate --web`: one page that loads nothing, served and written alike.
//!
//! What it begins with comes from a command line, so it goes in as base64: nothing of it can be markup.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::assets::CALCULATOR;

/// Where the page keeps what it begins with.
const PLACE: &str = "<script type=\"application/x-highwater\" id=\"inputs\"></script>";

/// Writes the calculator, which begins with these inputs: the words of its address, with their values.
///
/// # Errors
/// Those of `out`.
pub fn write_calculator(out: &mut impl Write, inputs: &[(String, String)]) -> io::Result<()> {
    let Some((head, tail)) = CALCULATOR.split_once(PLACE) else { return out.write_all(CALCULATOR.as_bytes()) };
    let inputs = form_urlencoded::Serializer::new(String::new()).extend_pairs(inputs).finish();
    out.write_all(head.as_bytes())?;
    write!(out, "{}{}</script>", PLACE.trim_end_matches("</script>"), STANDARD.encode(inputs))?;
    out.write_all(tail.as_bytes())
}

/// What the page itself says that it may load, and that no other page may frame it.
pub(crate) fn content_security_policy() -> String {
    let own = CALCULATOR.split_once("Content-Security-Policy\" content=\"").and_then(|(_, rest)| rest.split_once('"'));
    let own = own.map_or("default-src 'none'; style-src 'unsafe-inline'", |(own, _)| own);
    format!("{own}; frame-ancestors 'none'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assets::calculator_is_built;

    #[test]
    fn inputs_are_base64() {
        if !calculator_is_built() {
            return;
        }
        let mut page = Vec::new();
        let inputs = [("file".to_owned(), "</script><script>alert(1)</script>".to_owned())];
        write_calculator(&mut page, &inputs).expect("memory takes it");
        let page = String::from_utf8(page).expect("text");
        assert!(!page.contains("alert(1)"));
        let encoded = STANDARD.encode("file=%3C%2Fscript%3E%3Cscript%3Ealert%281%29%3C%2Fscript%3E");
        assert!(page.contains(&format!("id=\"inputs\">{encoded}</script>")));
    }

    #[test]
    fn the_page_loads_nothing() {
        let policy = content_security_policy();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(!policy.contains("http") && !policy.contains("connect-src"), "{policy}");
    }
}
