//! Facts from the system about a process that does not report how it uses its memory.

use std::io::{self, ErrorKind};

use highwater_driver::context::BARE_AT_MOST_BYTES;

use crate::sample::Loaded;
use crate::split::names;

/// Libraries of CUDA that every program on a GPU has, and that hold nothing themselves.
const DRIVER: [&str; 2] = ["libcuda.so", "libcudart"];

/// What the mapped files of a process say, or why they are not to be seen.
pub(crate) fn loaded(maps: io::Result<String>, user: Option<&str>) -> Loaded {
    let maps = match maps {
        Ok(maps) => maps,
        Err(error) => return Loaded { libraries: Vec::new(), unknown: hidden(error.kind(), user) },
    };
    let names = names(&maps);
    let libraries: Vec<String> = names.iter().map(|&name| name.to_owned()).filter(|name| name != "ctypes").collect();
    let has_driver = DRIVER.iter().any(|library| maps.contains(library));
    let context = highwater_units::size(BARE_AT_MOST_BYTES);
    let unknown = if names.contains("PyTorch") {
        format!(
            "a CUDA context takes up to {context} of its memory; how PyTorch and the other libraries share the rest is known only if the \
             program runs highwater's recorder: start it with `highwater run`"
        )
    } else if has_driver || !libraries.is_empty() {
        format!(
            "a CUDA context takes up to {context} of its memory; it has not loaded PyTorch, and other programs do not say how they use the \
             rest: `nsys profile --cuda-memory-usage=true` records it, and `highwater report` reads its file"
        )
    } else {
        "it has no CUDA library loaded: it uses graphics, or CUDA is linked into the program; only the driver's \
         total is known"
            .to_owned()
    };
    Loaded { libraries, unknown }
}

/// Why nothing but the driver's total is known.
fn hidden(kind: ErrorKind, user: Option<&str>) -> String {
    match (kind, user) {
        (ErrorKind::NotFound, _) => {
            "it is not among this system's processes: it has ended, or runs in another container or virtual machine; only the driver's \
             total is known here. Run `highwater top` there, or on the host"
                .to_owned()
        }
        (ErrorKind::PermissionDenied, Some(user)) => format!(
            "it belongs to {user}: its libraries cannot be seen, and only the driver's total is known. Run \
             `highwater top` as {user} or \
             as root"
        ),
        _ => "its libraries cannot be seen, and only the driver's total is known. Run `highwater top` as \
             root".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORCH: &str = "7f00-7f10 r-xp 0 08:01 5 /v/lib/python3.12/site-packages/torch/lib/libc10_cuda.so
7f10-7f20 r-xp 0 08:01 6 /v/nvidia/cublas/lib/libcublasLt.so.12
7f20-7f30 r-xp 0 08:01 7 /usr/lib/libcuda.so.550.54 (deleted)
7f30-7f40 rw-p 0 00:00 0 [heap]
7f40-7f50 r-xp 0 08:01 8 /v/lib/python3.12/lib-dynload/_ctypes.so
";

    fn of(maps: &str) -> Loaded {
        loaded(Ok(maps.to_owned()), None)
    }

    #[test]
    fn libraries_have_the_names_that_people_know() {
        let torch = of(TORCH);
        assert_eq!(torch.libraries, ["PyTorch", "cuBLAS"]);
        assert!(torch.unknown.contains("600.00 MiB") && torch.unknown.contains("highwater run"), "{}", torch.unknown);
        let other = of("1-2 r-xp 0 08:01 7 /x/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
        assert_eq!(other.libraries, ["JAX"]);
        assert!(other.unknown.contains("not loaded PyTorch"));
        let none = of("1-2 r-xp 0 08:01 7 /usr/lib/libGL.so.1");
        assert!(none.libraries.is_empty() && none.unknown.contains("no CUDA library"), "{}", none.unknown);
    }

    #[test]
    fn it_says_why_nothing_is_seen() {
        let why = |kind: ErrorKind, user| loaded(Err(kind.into()), user).unknown;
        assert!(why(ErrorKind::NotFound, None).contains("another container"));
        assert!(why(ErrorKind::PermissionDenied, Some("anna")).contains("as anna or as root"));
        assert!(why(ErrorKind::PermissionDenied, None).contains("as root"));
    }
}
