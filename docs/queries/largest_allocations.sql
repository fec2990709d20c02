-- Which single allocations are the largest?
SELECT run, rank, file, device, requested_bytes, size_bytes, category, call_site, called_from, alloc_entry,
       free_completed_entry
FROM lifetimes
ORDER BY requested_bytes DESC, file, device, lifetime
LIMIT 20;
