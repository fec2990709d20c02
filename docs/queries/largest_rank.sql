-- Which rank has the highest peak in its run, and which category holds more there than on the others?
WITH held AS (
    SELECT run, rank, file, device, category, sum(at_peak_bytes) AS bytes
    FROM lifetimes
    GROUP BY run, rank, file, device, category
), usual AS (
    SELECT run, category, avg(bytes) AS mean_bytes
    FROM held
    GROUP BY run, category
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY run ORDER BY at_peak_allocated_bytes DESC, file, device) AS place
    FROM devices
)
SELECT ranked.run, ranked.rank, ranked.device, ranked.at_peak_allocated_bytes, held.category, held.bytes,
       held.bytes - usual.mean_bytes AS more_than_mean_bytes
FROM ranked
JOIN held ON held.file = ranked.file AND held.device = ranked.device
JOIN usual ON usual.run = ranked.run AND usual.category = held.category
WHERE ranked.place = 1
ORDER BY ranked.run, more_than_mean_bytes DESC, held.category;
