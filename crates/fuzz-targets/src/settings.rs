//! The text of `PYTORCH_ALLOC_CONF`, which snapshots, logs and requests to the viewer hold.

use highwater_allocator::{Settings, TorchVersion};

/// A settings string is read or refused by the rules of each version; refused settings are left as they were, and sizes round up.
pub fn settings(bytes: &[u8]) {
    let Ok(conf) = str::from_utf8(bytes) else { return };
    for torch in [TorchVersion::v2(0), TorchVersion::v2(6), TorchVersion::v2(10), TorchVersion::NEWEST] {
        let before = Settings::new(torch);
        let mut settings = before.clone();
        match settings.parse(conf) {
            Ok(()) => {
                for size in [1, 512, 1_048_577, 33_554_433, 1 << 40] {
                    assert!(settings.round(size) >= size, "{size} bytes round down");
                }
                let mut again = settings.clone();
                again.parse(conf).expect("what was taken once is taken twice");
                settings.remarks().iter().for_each(|remark| drop(remark.to_string()));
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert_eq!(settings, before);
            }
        }
    }
}
