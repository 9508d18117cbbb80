-- End the tokens of a user that were issued until now, and raise the number that API replicas poll; a time never
-- moves back.
-- KEYS  1 ended tokens  2 numbers of apps
-- ARGV  1 pseudonym  2 now ms  3 most users  4 users above it before the oldest are removed  5 app
local last = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not last or tonumber(last) < tonumber(ARGV[2]) then
  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
end
local size = redis.call('ZCARD', KEYS[1])
if size > tonumber(ARGV[3]) + tonumber(ARGV[4]) then
  local rank = size - tonumber(ARGV[3]) - 1
  local newest = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')[2]
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', newest)
  redis.call('ZADD', KEYS[1], newest, '*')
end
return redis.call('HINCRBY', KEYS[2], ARGV[5], 1)
