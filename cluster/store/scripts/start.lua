-- Mark queued tasks as running.
-- KEYS  tasks
for _, task in ipairs(KEYS) do
  if redis.call('HGET', task, 'status') == 'queued' then
    redis.call('HSET', task, 'status', 'running')
  end
end
return #KEYS
