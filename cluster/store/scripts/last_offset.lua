-- Read the newest offset a change log ever gave, also when it is trimmed empty, without carrying entries over.
-- KEYS  1 change log
if redis.call('EXISTS', KEYS[1]) == 0 then
  return '0'
end
local facts = redis.call('XINFO', 'STREAM', KEYS[1])
for i = 1, #facts, 2 do
  if facts[i] == 'last-generated-id' then
    return facts[i + 1]
  end
end
return '0'
