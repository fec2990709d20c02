-- What stays behind after each iteration, and where?
SELECT growth.run, growth.rank, growth.file, growth.device, growth.call_site, growth.called_from, growth.per_iteration_bytes,
       growth.iterations, growth.counted_iterations,
       (SELECT max(end_requested_bytes) - min(end_requested_bytes)
        FROM iterations
        WHERE iterations.file = growth.file AND iterations.device = growth.device AND is_complete) AS end_moved_bytes
FROM growth
ORDER BY growth.per_iteration_bytes DESC, growth.file, growth.device, growth.call_site;
