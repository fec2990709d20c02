-- How fragmented is the memory of each rank at its dump?
SELECT run, rank, file, device, end_reserved_bytes, free_bytes, free_share, largest_free_block_bytes, scattered_share,
       inactive_split_bytes
FROM devices
ORDER BY run, inactive_split_bytes DESC, file, device;
