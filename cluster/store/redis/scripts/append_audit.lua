-- Append a row to the audit log if the last row is still the one whose chain it continues.
-- KEYS  1 rows
-- ARGV  1 id of the last row, empty: there is none  2 row  3 its chain
-- Gives {1, id, rows} or {0, id of the last row, its chain}.
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local id = last and last[1] or ''
if id ~= ARGV[1] then
  return {0, id, last and last[2][4] or ''}
end
local made = redis.call('XADD', KEYS[1], '*', 'row', ARGV[2], 'chain', ARGV[3])
return {1, made, redis.call('XLEN', KEYS[1])}
