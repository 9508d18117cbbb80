-- Put the lots of a question bank in the place of those there are.
-- KEYS  1 bank  2 version
-- ARGV  1 the version to replace, empty: any  2... sealed lots
-- Gives the new version; 0 and no change if the bank has another version.
local version = redis.call('GET', KEYS[2]) or '0'
if ARGV[1] ~= '' and ARGV[1] ~= version then
  return 0
end
redis.call('DEL', KEYS[1])
for i = 2, #ARGV do
  redis.call('RPUSH', KEYS[1], ARGV[i])
end
return redis.call('INCR', KEYS[2])
