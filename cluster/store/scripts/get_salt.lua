-- Return a salt; create it from random bytes if there is none, so of two processes that start at once both use one.
-- KEYS  1 salt
-- ARGV  1 random bytes
local salt = redis.call('GET', KEYS[1])
if not salt then
  -- Deleting first: so it is created also when memory is full, since deletes of interactions need it.
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], ARGV[1])
  salt = ARGV[1]
end
return salt
