-- Remember products as shown.
-- KEYS  1 page  2 how many pages strangers began
-- ARGV  1 idle life ms  2 most remembered  3 most pages strangers may begin in that time; 0: no bound
--       4... product ids
-- Gives 1, or 0 when strangers began too many.
local most = tonumber(ARGV[3])
if most > 0 and redis.call('EXISTS', KEYS[1]) == 0 then
  if tonumber(redis.call('GET', KEYS[2]) or '0') >= most then
    return 0
  end
  if redis.call('INCR', KEYS[2]) == 1 then
    redis.call('PEXPIRE', KEYS[2], ARGV[1])
  end
end
for first = 4, #ARGV, 1000 do
  redis.call('RPUSH', KEYS[1], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
redis.call('LTRIM', KEYS[1], -tonumber(ARGV[2]), -1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
