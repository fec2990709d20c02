-- Which rank ran out of memory first, and why? Clocks of several hosts may differ.
SELECT run, rank, file, device, entry, time_us, requested_bytes, reserved_bytes, device_free_bytes, cause, call_site
FROM (
    SELECT *, row_number() OVER (PARTITION BY run ORDER BY time_us NULLS LAST, file, device, entry) AS place
    FROM out_of_memory
) AS failures
WHERE place = 1
ORDER BY run;
