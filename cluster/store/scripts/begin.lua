-- Begin a write under an Idempotency-Key.
-- KEYS  1 the key's record
-- ARGV  1 digest of the body  2 life of the lock ms
-- Gives {'new'} | {'other'} | {'flying'} | {'done', status, reply}.
local held = redis.call('HMGET', KEYS[1], 'state', 'body', 'status', 'reply')
if not held[1] then
  redis.call('HSET', KEYS[1], 'state', 'flying', 'body', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {'new'}
end
if held[2] ~= ARGV[1] then
  return {'other'}
end
if held[1] == 'done' then
  return {'done', held[3], held[4]}
end
return {'flying'}
