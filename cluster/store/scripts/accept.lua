-- Take a batch: check and register its attribute types, queue it, create its task.
-- KEYS  1 attribute types  2 intake  3 task  4 noun seen  5 open tasks  6 deleted records (only of a removal)
-- ARGV  1 most waiting batches  2 noun  3 op  4 task id  5 payload  6 task type  7 total  8 failed
--       9 errors  10 now ms  11 task life s  12 number of arguments that follow: 13... attribute name, type
--       then of a removal: oldest kept ms, most kept, keyed hashes of the ids
-- Gives {'taken'} | {'full'} | {'clash', name, registered type, ...}; only the first has written.
local types, intake, task, seen, open = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- A caller whose reply was lost sends the batch again under its task id.
if redis.call('EXISTS', task) == 1 then
  return {'taken'}
end
if redis.call('XLEN', intake) >= tonumber(ARGV[1]) then
  return {'full'}
end

local clashes, fresh = {'clash'}, {}
local last_type = 12 + tonumber(ARGV[12])
-- In parts: Lua can't unpack many thousand values at once.
for first = 13, last_type, 1000 do
  local last = math.min(first + 999, last_type)
  local names = {}
  for i = first, last, 2 do
    names[#names + 1] = ARGV[i]
  end
  local known = redis.call('HMGET', types, unpack(names))
  for n, name in ipairs(names) do
    local wanted = ARGV[first + 2 * n - 1]
    if not known[n] then
      fresh[#fresh + 1] = name
      fresh[#fresh + 1] = wanted
    elseif known[n] ~= wanted then
      clashes[#clashes + 1] = name
      clashes[#clashes + 1] = known[n]
    end
  end
end
if #clashes > 1 then
  return clashes
end

local entry = redis.call('XADD', intake, '*', 'noun', ARGV[2], 'op', ARGV[3], 'task', ARGV[4], 'payload', ARGV[5])
for first = 1, #fresh, 1000 do
  redis.call('HSET', types, unpack(fresh, first, math.min(first + 999, #fresh)))
end
redis.call('HSET', task, 'noun', ARGV[2], 'type', ARGV[6], 'status', 'queued', 'total', ARGV[7],
  'succeeded', '0', 'failed', ARGV[8], 'errors', ARGV[9], 'entry', entry, 'created_at', ARGV[10])
-- A life from the start: a task whose batch is lost must not stay for ever.
redis.call('EXPIRE', task, ARGV[11])
redis.call('ZADD', open, ARGV[10], ARGV[4])
if ARGV[3] == 'put' then
  redis.call('SET', seen, '1')
else
  for first = last_type + 3, #ARGV, 500 do
    local scored = {}
    for i = first, math.min(first + 499, #ARGV) do
      scored[#scored + 1] = ARGV[10]
      scored[#scored + 1] = ARGV[i]
    end
    redis.call('ZADD', KEYS[6], unpack(scored))
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[6], '-inf', ARGV[last_type + 1])
  for _, oldest in ipairs(redis.call('ZRANGE', KEYS[6], 0, -tonumber(ARGV[last_type + 2]) - 1)) do
    redis.call('ZREM', KEYS[6], oldest)
  end
end
return {'taken'}
