-- Begin a write under an Idempotency-Key.
-- KEYS  1 the key's record  2 how many keys of browsers were begun
-- ARGV  1 digest of the body  2 life of the lock ms  3 most that may be begun while they are counted; 0: no bound
--       4 how long they are counted ms
-- Gives {'new'} | {'other'} | {'flying'} | {'full'} | {'done', status, reply, headers}.
local held = redis.call('HMGET', KEYS[1], 'state', 'body', 'status', 'reply', 'headers')
if not held[1] then
  local most = tonumber(ARGV[3])
  if most > 0 then
    if tonumber(redis.call('GET', KEYS[2]) or '0') >= most then
      return {'full'}
    end
    if redis.call('INCR', KEYS[2]) == 1 then
      redis.call('PEXPIRE', KEYS[2], ARGV[4])
    end
  end
  redis.call('HSET', KEYS[1], 'state', 'flying', 'body', ARGV[1])
  -- A process that dies here leaves a lock that ends by itself.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {'new'}
end
if held[2] ~= ARGV[1] then
  return {'other'}
end
if held[1] == 'done' then
  -- An earlier release kept no headers.
  return {'done', held[3], held[4], held[5] or ''}
end
return {'flying'}
