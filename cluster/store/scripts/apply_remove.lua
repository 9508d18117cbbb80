-- Remove the records a batch names, log the change, end its task, and take it off the intake.
-- KEYS  1 intake  2 task  3 open tasks  4 change log  5 ids  6 product types  7 ids by type
--       8... one key a record
-- ARGV  1 group  2 entry id  3 task id  4 now ms  5 task life s  6 noun  7 change payload  8... record ids
-- Gives the change's offset, or false when the batch was applied before: then nothing is written.
if redis.call('XDEL', KEYS[1], ARGV[2]) == 0 then
  return false
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])

local count = #KEYS - 7
for n = 1, count do
  local id = ARGV[7 + n]
  redis.call('DEL', KEYS[7 + n])
  redis.call('ZREM', KEYS[5], id)
  if ARGV[6] == 'product' then
    local old = redis.call('HGET', KEYS[6], id)
    if old then
      redis.call('ZREM', KEYS[7], old .. id)
      redis.call('HDEL', KEYS[6], id)
    end
  end
end

local offset = ''
if count > 0 then
  -- Twice: an erasure must survive a damaged byte.
  offset = redis.call('XADD', KEYS[4], '*', 'op', 'remove', 'payload', ARGV[7], 'copy', ARGV[7])
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HINCRBY', KEYS[2], 'succeeded', count)
  redis.call('HSET', KEYS[2], 'status', 'finished', 'finished_at', ARGV[4])
  redis.call('EXPIRE', KEYS[2], ARGV[5])
end
redis.call('ZREM', KEYS[3], ARGV[3])
return offset
