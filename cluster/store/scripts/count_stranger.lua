-- Count what a caller without proof does, unless their address or all of them did it too often on this day.
-- KEYS  1 what strangers did on this day
-- ARGV  1 what  2 address  3 most of an address; 0: no bound  4 most of all; 0: no bound
--       5 addresses that are counted apart  6 life of the counts s
-- Gives 1, or 0 when it was too often: then nothing is counted.
local mine = ARGV[1] .. ':' .. ARGV[2]
local held = redis.call('HMGET', KEYS[1], mine, ARGV[1])
if not held[1] and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then
  mine = ARGV[1] .. ':rest'
  held[1] = redis.call('HGET', KEYS[1], mine)
end
local each, all = tonumber(ARGV[3]), tonumber(ARGV[4])
if (each > 0 and tonumber(held[1] or '0') >= each) or (all > 0 and tonumber(held[2] or '0') >= all) then
  return 0
end
redis.call('HINCRBY', KEYS[1], mine, 1)
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('EXPIRE', KEYS[1], ARGV[6])
return 1
