-- What was in memory at the peak of each device?
SELECT run, rank, file, device, category, call_site, called_from, count(*) AS blocks, sum(at_peak_bytes) AS bytes
FROM lifetimes
WHERE at_peak_bytes > 0
GROUP BY run, rank, file, device, category, call_site, called_from
ORDER BY bytes DESC, file, device, call_site, category, called_from NULLS LAST;
