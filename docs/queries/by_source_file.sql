-- Which source files hold the memory at the peak? Sites without a line, such as nodes of autograd, stand for themselves.
SELECT run, rank, file, device,
       CASE WHEN instr(call_site, ':') > 0 AND call_site NOT LIKE '(%' THEN substr(call_site, 1, instr(call_site, ':') - 1)
            ELSE call_site END AS source,
       sum(at_peak_bytes) AS bytes, sum(at_peak_allocations) AS blocks
FROM call_sites
GROUP BY run, rank, file, device, source
HAVING sum(at_peak_bytes) > 0
ORDER BY bytes DESC, file, device, source;
