"""The documentation and the calculator as pages: `site.py DIRECTORY`. mkdocs makes the pages of the Markdown as it is.

What the pages link to outside `docs/` (the README, the architecture, `spec/`) becomes a page, too.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "STYLE.md", "LICENSE-MIT", "LICENSE-APACHE"]
CONFIG = """site_name: highwater
docs_dir: pages
use_directory_urls: false
theme: {name: readthedocs}
plugins: [search]
markdown_extensions: [tables, fenced_code, toc]
validation: {links: {not_found: ignore, unrecognized_links: ignore}}
"""


def main() -> None:
    """Writes the site."""
    out = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        pages = work / "pages"
        shutil.copytree(ROOT / "docs", pages / "docs")
        for directory in ("spec", "schemas"):
            shutil.copytree(ROOT / directory, pages / directory)
        for file in OUTSIDE:
            shutil.copy(ROOT / file, pages / ("index.md" if file == "README.md" else file))
        # The front page has another name here.
        for path in pages.rglob("*.md"):
            path.write_text(re.sub(r"\((?:\.\./)+README\.md", lambda link: link[0].replace("README", "index"), path.read_text()))
        (work / "mkdocs.yml").write_text(CONFIG)
        shutil.rmtree(out, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", out], cwd=work, check=True)
        shutil.copy(ROOT / "ui/dist/calculator.html", out / "calculator.html")
    print(f"wrote {sum(1 for _ in out.rglob('*.html'))} pages to {out}")


if __name__ == "__main__":
    main()
