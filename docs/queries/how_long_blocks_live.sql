-- How long do blocks live, by category? Only blocks whose allocation and free were recorded.
SELECT category, count(*) AS blocks,
       avg(free_completed_time_us - alloc_time_us) AS mean_us,
       max(free_completed_time_us - alloc_time_us) AS longest_us,
       avg(free_completed_entry - alloc_entry) AS mean_entries
FROM lifetimes
WHERE alloc_entry IS NOT NULL AND free_completed_entry IS NOT NULL
GROUP BY category
ORDER BY blocks DESC, category;
