-- Which call sites hold more at the peak than in the previous run? Runs are in the order of their names; of several ranks, the largest counts.
WITH sites AS (
    SELECT run, call_site, max(at_peak_bytes) AS bytes
    FROM call_sites
    GROUP BY run, call_site
), runs AS (
    SELECT run, lag(run) OVER (ORDER BY run) AS earlier
    FROM (SELECT DISTINCT run FROM snapshots)
)
SELECT runs.earlier, runs.run, sites.call_site, coalesce(before.bytes, 0) AS before_bytes, sites.bytes,
       sites.bytes - coalesce(before.bytes, 0) AS grown_bytes
FROM runs
JOIN sites ON sites.run = runs.run
LEFT JOIN sites AS before ON before.run = runs.earlier AND before.call_site = sites.call_site
WHERE runs.earlier IS NOT NULL AND sites.bytes > coalesce(before.bytes, 0)
ORDER BY grown_bytes DESC, sites.call_site
LIMIT 20;
