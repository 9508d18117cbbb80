-- Move a batch that can't be applied to quarantine and end its task as failed.
-- KEYS  1 intake  2 task  3 open tasks  4 quarantine
-- ARGV  1 group  2 entry id  3 task id  4 now ms  5 task life s  6 noun  7 reason  8 payload
--       9 late errors  10 cap of the quarantine
-- Gives 1, or 0 when the batch was applied or given up before.
if redis.call('XDEL', KEYS[1], ARGV[2]) == 0 then
  return 0
end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[10], '*', 'kind', 'batch', 'noun', ARGV[6], 'id', ARGV[3],
  'reason', ARGV[7], 'at', ARGV[4], 'payload', ARGV[8])
local counts = redis.call('HMGET', KEYS[2], 'total', 'succeeded')
local total = tonumber(counts[1])
if total then
  -- A damaged task may have lost a field; the batch must leave the intake all the same.
  redis.call('HSET', KEYS[2], 'status', 'failed', 'failed', total - (tonumber(counts[2]) or 0),
    'late_errors', ARGV[9], 'finished_at', ARGV[4])
  redis.call('EXPIRE', KEYS[2], ARGV[5])
end
redis.call('ZREM', KEYS[3], ARGV[3])
return 1
