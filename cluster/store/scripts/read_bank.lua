-- Read a question bank and its version, which belong together.
-- KEYS  1 bank  2 version
local found = redis.call('LRANGE', KEYS[1], 0, -1)
table.insert(found, 1, tonumber(redis.call('GET', KEYS[2]) or '0'))
return found
