-- Remember products as shown.
-- KEYS  1 page
-- ARGV  1 idle life ms  2 most remembered  3... product ids
for first = 3, #ARGV, 1000 do
  redis.call('RPUSH', KEYS[1], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
redis.call('LTRIM', KEYS[1], -tonumber(ARGV[2]), -1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
