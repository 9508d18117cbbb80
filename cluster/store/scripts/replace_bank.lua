-- Put the lots of a question bank in the place of those there are.
-- KEYS  1 bank  2 version
-- ARGV  sealed lots
-- Gives the new version.
redis.call('DEL', KEYS[1])
for i = 1, #ARGV do
  redis.call('RPUSH', KEYS[1], ARGV[i])
end
return redis.call('INCR', KEYS[2])
