-- End tasks whose batch is no longer in the intake and was never applied.
-- KEYS  1 intake  2 open tasks  3... tasks
-- ARGV  1 now ms  2 task life s  3 late errors  4... task ids
-- Gives how many were ended.
local ended = 0
for n = 3, #KEYS do
  local id = ARGV[n + 1]
  local task = redis.call('HMGET', KEYS[n], 'entry', 'total', 'succeeded')
  if not task[1] then
    redis.call('ZREM', KEYS[2], id)
  elseif #redis.call('XRANGE', KEYS[1], task[1], task[1], 'COUNT', 1) == 0 then
    redis.call('ZREM', KEYS[2], id)
    redis.call('HSET', KEYS[n], 'status', 'failed', 'failed', (tonumber(task[2]) or 0) - (tonumber(task[3]) or 0),
      'late_errors', ARGV[3], 'finished_at', ARGV[1])
    redis.call('EXPIRE', KEYS[n], ARGV[2])
    ended = ended + 1
  end
end
return ended
