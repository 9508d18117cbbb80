-- Turn an unused code into a grant.
-- KEYS  1 code  2 grant  3 grants of the user  4 revoked  5 grants of the client
-- ARGV  1 sealed grant  2 refresh sha  3 now ms  4 life ms  5 grant id  6 `user:<id>`  7 code made at ms  8 most
-- Gives {what became of it, grants of the user over the most, oldest first}.
local code = redis.call('HMGET', KEYS[1], 'code', 'used')
if not code[1] then
  return {'gone', {}}
end
if code[2] then
  return {'used', {}}
end
local locked = tonumber(redis.call('ZSCORE', KEYS[4], ARGV[6]) or '-1')
-- Before the check of the lock: a code is spent by the first try, whatever comes of it.
redis.call('HSET', KEYS[1], 'used', '1')
if locked >= tonumber(ARGV[7]) then
  return {'gone', {}}
end
redis.call('HSET', KEYS[2], 'grant', ARGV[1], 'current', ARGV[2], 'used_at', ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('ZADD', KEYS[3], ARGV[3], ARGV[5])
redis.call('PEXPIRE', KEYS[3], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', tonumber(ARGV[3]) - tonumber(ARGV[4])))
redis.call('ZADD', KEYS[5], ARGV[3], ARGV[5])
redis.call('PEXPIRE', KEYS[5], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', string.format('%.0f', tonumber(ARGV[3]) - tonumber(ARGV[4])))
local over = redis.call('ZCARD', KEYS[3]) - tonumber(ARGV[8])
return {'begun', over > 0 and redis.call('ZRANGE', KEYS[3], 0, over - 1) or {}}
