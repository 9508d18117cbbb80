-- Take or renew a lease.
-- KEYS  1 lease
-- ARGV  1 owner  2 life ms
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
-- Deleting first: it is allowed also when memory is full, and then so is the rest.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
