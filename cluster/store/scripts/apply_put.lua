-- Write the records of a batch, its changes and its task's end, and take it off the intake.
-- KEYS  1 intake  2 task  3 open tasks  4 change log  5 ids  6 product types  7 ids by type  8 engines
--       9... one key a record
-- ARGV  1 group  2 entry id  3 task id  4 now ms  5 task life s  6 noun  7 change payload  8 vectors
--       9 embedder  10 failed  11 late errors  12 default engine (or empty)
--       13... record id, sealed record, type as JSON text (or empty)
--       then change payload and vectors of each further entry of the change log
-- Gives the last change's offset, or false when the batch was applied before: then nothing is written.
-- The entry is the proof that the batch was not applied: whoever deletes it writes, all others write
-- nothing.
if redis.call('XDEL', KEYS[1], ARGV[2]) == 0 then
  return false
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])

local ids, types, by_type = KEYS[5], KEYS[6], KEYS[7]
local count = #KEYS - 8
local products = ARGV[6] == 'product'
for n = 1, count do
  local at = 10 + 3 * n
  local id, kind = ARGV[at], ARGV[at + 2]
  redis.call('SET', KEYS[8 + n], ARGV[at + 1])
  -- Score 0 for all: equal scores are ordered by name, which pages of ids rely on.
  redis.call('ZADD', ids, 0, id)
  if products then
    local old = redis.call('HGET', types, id) or ''
    if old ~= kind then
      if old ~= '' then
        redis.call('ZREM', by_type, old .. id)
      end
      if kind ~= '' then
        redis.call('HSET', types, id, kind)
        redis.call('ZADD', by_type, 0, kind .. id)
      else
        redis.call('HDEL', types, id)
      end
    end
  end
end
if count > 0 and ARGV[12] ~= '' then
  redis.call('HSETNX', KEYS[8], 'default', ARGV[12])
end

local offset = ''
local function log_change(payload, vectors)
  if products then
    offset = redis.call('XADD', KEYS[4], '*', 'op', 'put', 'payload', payload, 'vectors', vectors, 'embedder', ARGV[9])
  else
    offset = redis.call('XADD', KEYS[4], '*', 'op', 'put', 'payload', payload)
  end
end
if count > 0 then
  log_change(ARGV[7], ARGV[8])
  for at = 13 + 3 * count, #ARGV, 2 do
    log_change(ARGV[at], ARGV[at + 1])
  end
end

-- A task that has expired must not come back as a hash without a life.
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HINCRBY', KEYS[2], 'succeeded', count)
  redis.call('HINCRBY', KEYS[2], 'failed', ARGV[10])
  redis.call('HSET', KEYS[2], 'status', 'finished', 'late_errors', ARGV[11], 'finished_at', ARGV[4])
  redis.call('EXPIRE', KEYS[2], ARGV[5])
end
redis.call('ZREM', KEYS[3], ARGV[3])
return offset
