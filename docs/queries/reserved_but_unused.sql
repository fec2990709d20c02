-- How much memory is reserved and not in use, at the peak and at the dump, and how much of it would `empty_cache()` release?
SELECT run, rank, file, device, at_peak_reserved_bytes - at_peak_active_bytes AS unused_at_peak_bytes, free_bytes,
       releasable_bytes, inactive_split_bytes
FROM devices
ORDER BY unused_at_peak_bytes DESC, file, device;
