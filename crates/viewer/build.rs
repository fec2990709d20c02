//! Embeds what `npm run build` left in `ui/dist`, or pages that say how to build it. `embedded` is a link there, so that a packaged
//! crate has the page inside.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const FILES: [&str; 4] = ["index.html", "app.js", "worker.js", "app.css"];

/// A page of its own, which may be missing where the rest is built: see `make ui`.
const CALCULATOR: &str = "calculator.html";

const NOT_BUILT: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>highwater: the viewer is not built</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 4em auto; padding: 0 1em }</style>
<h1>The viewer is not in this build</h1>
<p>This program was built before the page was. Build the page, then the program again:</p>
<pre>make ui build</pre>
<p>or, without make: <code>npm ci &amp;&amp; npm run build</code> in <code>ui/</code>, then
<code>cargo build --release</code>.</p>
<p>All that the viewer would show, <code>highwater report</code>, <code>live</code>, <code>segments</code> and
<code>simulate</code> print.</p>
</html>
";

const NO_CALCULATOR: &str = "<!doctype html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<title>highwater: the calculator is not built</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 4em auto; padding: 0 1em }</style>
<h1>The calculator is not in this build</h1>
<p>It runs the program's own arithmetic as WebAssembly, for which Rust needs a target more:</p>
<pre>rustup target add wasm32-unknown-unknown
make ui build</pre>
<p>All that it would show, <code>highwater estimate</code> prints.</p>
</html>
";

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let built = variable("CARGO_MANIFEST_DIR")?.join("embedded");
    let out = variable("OUT_DIR")?;
    let is_built = FILES.iter().all(|file| built.join(file).is_file());
    println!("cargo::rerun-if-changed=build.rs");
    for file in FILES {
        // A file that is not there is looked for again with every build.
        println!("cargo::rerun-if-changed={}", built.join(file).display());
        embed(&built, &out, file, (!is_built).then_some(if file == "index.html" { NOT_BUILT } else { "" }))?;
    }
    println!("cargo::rerun-if-changed={}", built.join(CALCULATOR).display());
    let has_calculator = built.join(CALCULATOR).is_file();
    embed(&built, &out, CALCULATOR, (!has_calculator).then_some(NO_CALCULATOR))?;
    let yes = |is: bool| if is { "yes" } else { "no" };
    println!("cargo::rustc-env=HIGHWATER_UI_IS_BUILT={}", yes(is_built));
    println!("cargo::rustc-env=HIGHWATER_CALCULATOR_IS_BUILT={}", yes(has_calculator));
    Ok(())
}

/// A file as it was built, or a text in its place.
fn embed(built: &Path, out: &Path, file: &str, instead: Option<&str>) -> io::Result<()> {
    match instead {
        None => fs::copy(built.join(file), out.join(file)).map(|_| ()),
        Some(text) => fs::write(out.join(file), text),
    }
}
