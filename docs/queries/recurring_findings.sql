-- Which findings recur, and how much would each save?
SELECT id, severity, count(DISTINCT run) AS runs, count(DISTINCT file) AS files, max(saving_bytes) AS largest_saving_bytes,
       min(title) AS for_example
FROM findings
GROUP BY id, severity
ORDER BY files DESC, largest_saving_bytes DESC, id, severity;
