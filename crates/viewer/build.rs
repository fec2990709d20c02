//! Embeds what `npm run build` left in `ui/dist`, or a page that says how to build it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

const FILES: [&str; 4] = ["index.html", "app.js", "worker.js", "app.css"];

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

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).ok_or(io::ErrorKind::NotFound);
    let built = variable("CARGO_MANIFEST_DIR")?.join("../../ui/dist");
    let out = variable("OUT_DIR")?;
    let is_built = FILES.iter().all(|file| built.join(file).is_file());
    println!("cargo::rerun-if-changed=build.rs");
    for file in FILES {
        // A file that is not there is looked for again with every build.
        println!("cargo::rerun-if-changed={}", built.join(file).display());
        embed(&built, &out, file, is_built)?;
    }
    println!("cargo::rustc-env=HIGHWATER_UI_IS_BUILT={}", if is_built { "yes" } else { "no" });
    Ok(())
}

fn embed(built: &Path, out: &Path, file: &str, is_built: bool) -> io::Result<()> {
    let to = out.join(file);
    if is_built {
        return fs::copy(built.join(file), to).map(|_| ());
    }
    fs::write(to, if file == "index.html" { NOT_BUILT } else { "" })
}
