-- How much does each category hold over time: after each allocation and free of the devices?
WITH changes AS (
    SELECT file, device, category, coalesce(alloc_entry, -1) AS entry, size_bytes AS bytes
    FROM lifetimes
    UNION ALL
    SELECT file, device, category, coalesce(free_requested_entry, free_completed_entry), -size_bytes
    FROM lifetimes
    WHERE coalesce(free_requested_entry, free_completed_entry) IS NOT NULL
), steps AS (
    SELECT file, device, category, entry, sum(bytes) AS bytes
    FROM changes
    GROUP BY file, device, category, entry
)
SELECT file, device, category, entry, sum(bytes) OVER (PARTITION BY file, device, category ORDER BY entry) AS held_bytes
FROM steps
ORDER BY file, device, entry, category;
