//! Follows a path through the tree, as the kernel follows one through the file system.
//!
//! A directory of the tree has everything that the directory in its place has for the program. What was not changed is a *stand-in*
//! there: a link whose target begins with `/./`, which means to the kernel what it means without, and tells it from the
//! links that programs make.

use crate::kernel;
use crate::path::{self, Path};
use crate::settings::{self, Settings};
use crate::system::{self, Errno};

/// How the target of a stand-in begins.
const MARK: &[u8] = b"/./";
/// In a directory that cannot be listed, this leads to the original, where names are looked for that are not in the tree.
pub(crate) const UNLISTED: &[u8] = b".highwater-unlisted";
/// The kernel follows no more links than these.
const LINKS_MAX: u32 = 40;

/// What a path means.
pub(crate) struct Place {
    /// The path as the program would see it, without links; empty for the root.
    pub(crate) shown: Path,
    /// Where it really is: what the real functions have to be given.
    pub(crate) real: Path,
    /// Whether something is there.
    pub(crate) exists: bool,
    /// Whether this is one of the places in which writes stay where they are: the kernel's, or one that was named.
    pub(crate) passes: bool,
}

impl Place {
    fn root(settings: &Settings) -> Self {
        let tree = if settings.begun() { settings.tree.clone() } else { Path::new() };
        Place { shown: Path::new(), real: tree, exists: true, passes: false }
    }
}

/// The original that a stand-in stands for.
pub(crate) fn original(target: &Path) -> Option<Path> {
    let rest = target.as_bytes().strip_prefix(MARK)?;
    Path::joined(b"", rest).ok()
}

/// The target of a stand-in for an entry of a directory.
///
/// # Errors
/// It would be too long.
pub(crate) fn stand_in(directory: &[u8], name: &[u8]) -> Result<Path, Errno> {
    let mut target = Path::of(&MARK[..2])?;
    target.push(directory)?;
    target.join(name)?;
    Ok(target)
}

/// What is at the end of one step.
pub(crate) struct Step {
    pub(crate) real: Path,
    pub(crate) found: Found,
}

#[expect(clippy::large_enum_variant, reason = "nothing here allocates")]
pub(crate) enum Found {
    Nothing,
    /// What is no link.
    Thing,
    /// A link of the program's, or one that was always there, and where it leads.
    Link(Path),
}

/// Finds out what an absolute path means. A link at its end is followed only if `follow`.
///
/// # Errors
/// As the kernel has them: a directory on the way is not there, is none, or may not be entered; links lead round.
pub(crate) fn walk(settings: &Settings, path: &[u8], follow: bool) -> Result<Place, Errno> {
    let mut ahead = Path::of(inside(settings, path))?;
    let mut done = 0;
    let mut place = Place::root(settings);
    let mut links = 0;
    while let Some((name, rest)) = path::first_name(&ahead.as_bytes()[done..]) {
        let rest_at = ahead.as_bytes().len() - rest.len();
        if name == b"." {
            done = rest_at;
            continue;
        }
        if !place.exists {
            return Err(Errno::NOT_THERE);
        }
        if name == b".." {
            ahead = Path::joined(path::parent(place.shown.as_bytes()), rest)?;
            (done, place) = (0, Place::root(settings));
            continue;
        }
        place.shown.join(name)?;
        if settings.passes(place.shown.as_bytes()) && !goes_up(rest) {
            place.shown.push(rest)?;
            place.real = place.shown.clone();
            place.passes = true;
            return Ok(place);
        }
        let is_last = path::first_name(rest).is_none();
        place.passes = settings::is_of_the_kernel(place.shown.as_bytes());
        let step = if place.passes { kernel::step(&place.real, name)? } else { step(&place.real, name)? };
        place.real = step.real;
        match step.found {
            Found::Nothing => place.exists = false,
            Found::Thing => {}
            Found::Link(_) if is_last && !follow => {}
            Found::Link(target) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP);
                }
                let base = path::parent(place.shown.as_bytes());
                let absolute = target.as_bytes().starts_with(b"/");
                let mut next = if absolute { target } else { Path::joined(base, target.as_bytes())? };
                next.push(rest)?;
                ahead = Path::of(inside(settings, next.as_bytes()))?;
                (done, place) = (0, Place::root(settings));
                continue;
            }
        }
        done = rest_at;
    }
    if place.real.as_bytes().is_empty() {
        place.real.push(b"/")?;
    }
    Ok(place)
}

/// A path of the tree as the program would see it: the kernel tells such paths of what is open.
pub(crate) fn inside<'a>(settings: &Settings, path: &'a [u8]) -> &'a [u8] {
    path::below(path, settings.tree.as_bytes()).unwrap_or(path)
}

fn goes_up(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|name| name == b"..")
}

pub(crate) fn step(directory: &Path, name: &[u8]) -> Result<Step, Errno> {
    let step = found(Path::joined(directory.as_bytes(), name)?)?;
    let instead = match &step.found {
        Found::Thing => None,
        Found::Link(target) => original(target),
        Found::Nothing => match unlisted(directory) {
            Some(directory) => Some(Path::joined(directory.as_bytes(), name)?),
            None => None,
        },
    };
    // Outside of the tree there are no stand-ins.
    instead.map_or(Ok(step), found)
}

fn found(real: Path) -> Result<Step, Errno> {
    let found = match system::read_link(&real) {
        Ok(target) => Found::Link(target),
        Err(Errno::INVALID) => Found::Thing,
        Err(Errno::NOT_THERE) => Found::Nothing,
        Err(error) => return Err(error),
    };
    Ok(Step { real, found })
}

/// The original of a directory of the tree, if that could not be listed.
pub(crate) fn unlisted(directory: &Path) -> Option<Path> {
    let link = Path::joined(directory.as_bytes(), UNLISTED).ok()?;
    original(&system::read_link(&link).ok()?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory with `data/file`, a link `to_data` and one that leads round; a sandbox beside it, without a tree.
    fn world() -> (tempfile::TempDir, Settings) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("data")).unwrap();
        fs::create_dir_all(root.join("box/stage")).unwrap();
        fs::write(root.join("data/file"), "text").unwrap();
        symlink("data", root.join("to_data")).unwrap();
        symlink("round", root.join("round")).unwrap();
        let settings = Settings::new(root.join("box").as_os_str().as_encoded_bytes(), b"").unwrap();
        (directory, settings)
    }

    fn shown(settings: &Settings, directory: &tempfile::TempDir, path: &str, follow: bool) -> Result<String, Errno> {
        let root = directory.path().canonicalize().unwrap();
        let place = walk(settings, root.join(path).as_os_str().as_encoded_bytes(), follow)?;
        let shown = String::from_utf8(place.shown.as_bytes().to_vec()).unwrap();
        Ok(shown.strip_prefix(root.to_str().unwrap()).unwrap().to_owned())
    }

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let (directory, settings) = world();
        let shown = |path, follow| shown(&settings, &directory, path, follow);
        assert_eq!(shown("to_data/./file", true).unwrap(), "/data/file");
        assert_eq!(shown("to_data/../data//file", true).unwrap(), "/data/file");
        assert_eq!(shown("to_data", false).unwrap(), "/to_data");
        assert_eq!(shown("to_data", true).unwrap(), "/data");
        assert_eq!(shown("data/new", true).unwrap(), "/data/new");
        assert_eq!(shown("round", true), Err(Errno::LOOP));
        assert_eq!(shown("none/new", true), Err(Errno::NOT_THERE));
        assert_eq!(shown("data/file/new", true), Err(Errno::NO_DIRECTORY));
    }

    #[test]
    fn what_is_the_kernels_passes() {
        let (_directory, settings) = world();
        for path in [&b"/proc/self/status"[..], b"/dev/null", b"/sys/none"] {
            let place = walk(&settings, path, true);
            assert!(place.as_ref().is_ok_and(|place| place.passes && place.real.as_bytes() == path), "{path:?}");
        }
        assert!(!walk(&settings, b"/proc/../tmp", true).unwrap().passes);
        assert_eq!(walk(&settings, b"/", true).unwrap().real.as_bytes(), b"/");
    }

    #[test]
    fn a_stand_in_says_what_it_stands_for() {
        let target = stand_in(b"/a/b", b"c").unwrap();
        assert_eq!(target.as_bytes(), b"/./a/b/c");
        assert_eq!(original(&target).unwrap().as_bytes(), b"/a/b/c");
        assert_eq!(stand_in(b"", b"c").unwrap().as_bytes(), b"/./c");
        assert!(original(&Path::of(b"/a").unwrap()).is_none());
    }
}
