-- Append a row to the audit log if the last row is still the one whose chain it continues.
-- KEYS  1 rows  2 begun changes
-- ARGV  1 id of the last row, empty: there is none  2 row  3 its chain  4 the begun change that it ends, or empty
--       5 1: only if that change is still noted as begun  6 its proof, or empty
-- Gives {1, id, rows}, {0, id of the last row, its chain}, or {2, '', ''}: the change is not noted.
if ARGV[5] == '1' and redis.call('HEXISTS', KEYS[2], ARGV[4]) == 0 then
  return {2, '', ''}
end
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local id = last and last[1] or ''
if id ~= ARGV[1] then
  return {0, id, last and last[2][4] or ''}
end
local made
if ARGV[6] ~= '' then
  made = redis.call('XADD', KEYS[1], '*', 'row', ARGV[2], 'chain', ARGV[3], 'proof', ARGV[6])
else
  made = redis.call('XADD', KEYS[1], '*', 'row', ARGV[2], 'chain', ARGV[3])
end
if ARGV[4] ~= '' then
  redis.call('HDEL', KEYS[2], ARGV[4])
end
return {1, made, redis.call('XLEN', KEYS[1])}
